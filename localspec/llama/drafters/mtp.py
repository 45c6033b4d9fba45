"""Multi-token prediction (Gloeckle et al. 2024; DeepSeek-V3): layers trained with the model that go on from its state.

The row at position P is the pair (token at P + 1, state of the target behind P). Drafted tokens have no such state;
their rows take the one that the layer itself gave to the row before. Three kinds:

one layer        goes on from its own rows, for as many tokens as are asked for
several layers   one for each token ahead; each has its own cache, so step i lets layer i read the whole draft again
a sharing head   reads the target's cache at the position of the last token, writes nothing, and needs no catching up
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import ClassVar

import numpy as np

from localspec import gguf
from localspec.errors import ModelError, ModelLoadError
from localspec.llama import devices, hidden, prediction
from localspec.llama.choices import CACHE_TYPES, gpu_layers
from localspec.llama.drafters.draws import Following
from localspec.llama.drafters.features import Features
from localspec.llama.drafters.follower import Follower
from localspec.llama.drafters.head import HeadContext
from localspec.llama.heads import Head
from localspec.llama.hidden import States
from localspec.llama.load import open_model
from localspec.llama.model import LlamaModel
from localspec.llama.native import Pointer, lc
from localspec.model import ModelSpec
from localspec.spec.drafters.model import UNSURE
from localspec.spec.types import Logits, Token, Tokens


class MtpContext(HeadContext):
    """The prediction layers of the target's own weights, or of another file."""

    def _open(self, head: Head, target: LlamaModel, spec: ModelSpec) -> None:
        model, self.target_context = target.lend(self._native)
        self.layers = head.longest or 1
        self.width: int = lc.llama_model_n_embd_out(model)
        self.input_width = self.width
        on_gpu = target.info.gpu_layers
        if spec.path != target.info.path:
            asked = spec.gpu_layers if spec.gpu_layers is not None or on_gpu else 0
            layers = head.header.number("$.block_count")
            on_gpu = gpu_layers(asked, layers, devices.has_gpu(devices.list_devices()))
            model = open_model(self._native, spec.path, gpu_layers=on_gpu, mtp=True)
        if lc.llama_model_n_embd_out(model) != self.width:
            raise ModelLoadError(spec.path, f"its states are not {self.width} wide, as the model's are")
        self._create(model, spec.path, self._mtp_params(head, target, spec, "auto" if on_gpu else "off"))
        self.shares = hidden.linked(self._context) == self.target_context
        # Only rows with logits: some of these graphs pick them out before they hand out the states.
        hidden.keep_nextn(self._context, masked=True)

    def _mtp_params(self, head: Head, target: LlamaModel, spec: ModelSpec, flash: str) -> Pointer:
        info, sharing = target.info, prediction.is_sharing(head.header)
        params = self._params(target, spec, ("on" if info.flash_attn else "off") if sharing else flash)
        params.ctx_type = lc.LLAMA_CONTEXT_TYPE_MTP
        params.n_outputs_max = self.layers
        if sharing:  # it sees the target's cache, so it must take it for what it is
            params.type_k, params.type_v = CACHE_TYPES[info.cache_type_k], CACHE_TYPES[info.cache_type_v]
            params.swa_full = target.rollback != "SWA"
        return params

    def choose(self, layer: int) -> None:
        if self.layers > 1:
            hidden.choose_nextn_layer(self._context, layer)

    def cut(self, length: int) -> None:
        if not self.shares:
            super().cut(length)

    def clear(self) -> None:
        if not self.shares:
            super().clear()


@contextmanager
def _emptied(target: LlamaModel) -> Iterator[None]:
    """llama.cpp wipes the list of what a cache holds when another context comes to share it. So it is emptied before
    and read again afterwards, which costs nothing where the head is made before the chat begins."""
    held = target.cached.copy()
    target.rewind(0)
    try:
        yield
    finally:
        for start in range(0, len(held), target.n_batch):
            target.decode(held[start : start + target.n_batch], rows=0)


class Mtp(Follower):
    name: ClassVar[str] = "mtp"
    waiting: ClassVar[int] = 1
    _context: MtpContext

    def __init__(self, target: LlamaModel, spec: ModelSpec | None = None, *, unsure: float = UNSURE) -> None:
        """`spec` names a file of prediction layers; None stands for those of the target's own file. Raises
        ModelError or ModelLoadError with the reason where they can't draft for this target."""
        header = gguf.read(target.info.path)
        if spec is None and target.mtp_off is not None:
            raise ModelError(f"mtp can't run: {target.mtp_off}.", "Use another --method.")
        head = prediction.own(header) if spec is None else prediction.fit(spec.path, header)
        with _emptied(target) if prediction.is_sharing(head.header) else nullcontext():
            self._context = context = MtpContext(head, target, spec or ModelSpec(target.info.path))
            features = Features(context.target_context, head.layers, context.width, behind_last=head.layers[0])
            self._begin(head, target, features, unsure)

    def _following(self, context: Tokens, limit: int) -> Following:
        last, head = len(context) - 1, self._context
        for start, end in self._behind(last - 1):
            self._write(start, end, context)
        self._features.drop(last - 1)
        tokens, states = [int(context[last])], [self._features[last - 1 : last]]

        def row(token: Token | None) -> Logits:
            if token is not None:
                states.append(head.states()[-1:])
                tokens.append(token)
            return self._row(last - 1, tokens, states)

        return row

    def _row(self, start: int, tokens: list[Token], states: list[States]) -> Logits:
        """The logits behind the last of `tokens`, the first of which stands at position `start`."""
        head, step = self._context, len(tokens) - 1
        if head.layers > 1:
            head.cut(start)
            head.choose(step)
            head.decode(start, tokens, np.concatenate(states), wanted=True)
        else:
            head.decode(start + 1 if head.shares else start + step, tokens[-1:], states[-1], wanted=True)
        logits: Logits = head.logits()[-1]
        return logits

    def _write(self, start: int, end: int, tokens: Tokens, *, wanted: bool = False) -> None:
        head = self._context
        if head.shares:
            return
        for layer in range(head.layers):
            head.cut(start)
            head.choose(layer)
            head.decode(start, tokens[start + 1 : end + 1], self._features[start:end], wanted=wanted)
