"""What every HTTP face shares.

A service room makes its face with ``make_face``; the server puts faces together with ``assemble`` and
runs them with ``serve``. Handlers raise ``Fault`` subclasses, read bodies with ``read_json``,
``receive_upload`` and ``receive_multipart``, stream with ``event_stream``. The client side is in
``vetro.http.client`` (not imported here: a command line that only talks needs no server).
"""

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.http.accept import ANY_ACCEPT
    from vetro.http.assembly import Assembly, assemble, respond
    from vetro.http.audit import Audit
    from vetro.http.bodies import (
        Part,
        content_type,
        discard_abandoned_uploads,
        read_body,
        read_json,
        receive_multipart,
        receive_upload,
    )
    from vetro.http.budget import RequestBudget
    from vetro.http.conditions import IF_MATCH, UNCONDITIONAL, Condition, with_tag
    from vetro.http.connections import (
        LIMITED,
        Admission,
        ConnectionLimits,
        admission,
        raise_descriptor_limit,
    )
    from vetro.http.context import base_url, context_of, principal_of
    from vetro.http.conventions import (
        CATALOG_CONVENTIONS,
        COMPUTE_CONVENTIONS,
        REPOSITORY_CONVENTIONS,
    )
    from vetro.http.dashboard.customs import Customs, DashboardSection
    from vetro.http.dashboard.face import dashboard_face
    from vetro.http.dashboard.signing_in import ServicePart
    from vetro.http.declaration import Extras, Reply
    from vetro.http.description import an_object
    from vetro.http.document import BEARER, TOKEN, Named, Security, listed, maybe, shape, shape_of
    from vetro.http.downloads import download, known_content
    from vetro.http.envelope import Envelope
    from vetro.http.events import ServerEvent, event_stream, unless_closing
    from vetro.http.face import Face, make_face
    from vetro.http.faults import (
        COMPUTE_FAULTS,
        REPOSITORY_FAULTS,
        BadRequest,
        Conflict,
        Fault,
        FaultStyle,
        Forbidden,
        GatewayTimeout,
        MalformedBody,
        MethodNotAllowed,
        NoSuchPath,
        NotFound,
        PartTooLarge,
        PayloadTooLarge,
        PreconditionFailed,
        ServiceUnavailable,
        TooManyRequests,
        Unauthorized,
        UnsupportedMediaType,
    )
    from vetro.http.guarded_server import serve_application
    from vetro.http.headers import Headers, header
    from vetro.http.logs import configure_logging, write_out_logs
    from vetro.http.metrics import (
        DECLARED,
        Readings,
        counter,
        declare,
        gauge,
        histogram,
        observe_request,
        show_counts,
        stored_gauge,
    )
    from vetro.http.origins import Cors, peer_address
    from vetro.http.pages import PageRequest, paginate
    from vetro.http.policy import MEMBER_API, Policy, PolicyError, denied
    from vetro.http.principal import Authenticator, Principal
    from vetro.http.project_limits import ProjectLimits
    from vetro.http.remembered import Remembered
    from vetro.http.request_counts import RequestCounts
    from vetro.http.serving import serve
    from vetro.http.unread import Unread

__getattr__ = import_when_used(__name__)
