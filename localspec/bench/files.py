"""Reports on disk: the place is tried before anything is measured, and a file is written whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from localspec.bench import charts, tables
from localspec.bench.report import Report, document, text
from localspec.errors import LocalspecError, UsageError

_CHARTS = "\n".join(f"![{name}]({name}.svg)" for name in ("speedup", "acceptance", "latency", "time"))


def prepare(json_file: Path | None, folder: Path | None) -> None:
    """Raises UsageError where a report could not be written."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        for place in filter(None, (folder, json_file and json_file.absolute().parent)):
            part = place / f".{uuid4().hex}.part"
            part.touch()
            part.unlink()
        if json_file is not None and json_file.is_dir():
            raise UsageError(f"{json_file} is a folder.", "--json names a file; --report names a folder.")
    except OSError as error:
        raise UsageError(
            f"A report can't be written to {error.filename}: {error.strerror}.", "Name another place."
        ) from None


def save(report: Report, json_file: Path | None, folder: Path | None) -> list[Path]:
    """What was written. Raises LocalspecError; the files before the one that failed stay."""
    whole = text(document(report))
    files: dict[Path, str] = {}
    if json_file is not None:
        files[json_file] = whole
    if folder is not None:
        files |= {folder / name: drawn for name, drawn in charts.charts(report).items()}
        files |= {folder / "report.json": whole, folder / "report.md": tables.markdown(report) + f"\n{_CHARTS}\n"}
    for path, content in files.items():
        _write(path, content)
    return list(files)


def _write(path: Path, content: str) -> None:
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        part.write_text(content, "utf-8")
        part.replace(path)
    except OSError as error:
        raise LocalspecError(
            f"Cannot write {path}: {error.strerror}.",
            "The table above has the results; make room and run it again.",
        ) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
