from .exchange import BadRequest as BadRequest, ClientGone as ClientGone, Exchange as Exchange
from .in_flight import (
    InFlight as InFlight,
    ServerBusy as ServerBusy,
    ServerStopping as ServerStopping,
    Stopping as Stopping,
)
from .serving import HttpServer as HttpServer, is_loopback as is_loopback, listen as listen, url_of as url_of
