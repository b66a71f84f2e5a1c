from .exchange import BadRequest as BadRequest, ClientGone as ClientGone, Exchange as Exchange
from .serving import (
    HttpServer as HttpServer,
    InFlight as InFlight,
    ServerBusy as ServerBusy,
    ServerStopping as ServerStopping,
    Stopping as Stopping,
    is_loopback as is_loopback,
    listen as listen,
    url_of as url_of,
)
