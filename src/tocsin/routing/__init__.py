"""Routing: a tree of routers that forward subscriptions, and notifications back to subscribers.

`Overlay` simulates a tree in one process. `tocsin router` starts one router that talks to others
over NATS, and `RouterClient` is a client of it.
"""

from tocsin.routing.languages import Boxes, Conditions
from tocsin.routing.nats_client import RouterClient
from tocsin.routing.overlay import Overlay
from tocsin.routing.router import Router
from tocsin.routing.session import Session

__all__ = ["Boxes", "Conditions", "Overlay", "Router", "RouterClient", "Session"]
