"""An engine on another machine: any server that speaks the OpenAI protocol, behind the same commands and events.

visit.py finds out who answers, body.py asks, hearing.py understands, failures.py says what went wrong, engine.py
does it, client.py keeps it off the screen's thread. What the server decides is shown as the server's.
"""

from localspec.engine.remote.client import RemoteClient
from localspec.engine.remote.engine import RemoteEngine
from localspec.engine.remote.site import SERVER, Address, Site

__all__ = ["SERVER", "Address", "RemoteClient", "RemoteEngine", "Site"]
