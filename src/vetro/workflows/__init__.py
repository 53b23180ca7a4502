"""The XML workflow language of the v0.3 world: its files, its rule loop, its execution plans.

    task = Task(model, Files(contents, read_document), port)
    outcome = task.run()

Phases: `source` reads XML with positions; `content` and the modules of functions resolve names, paths
and expressions and make closures; `task` runs them in rounds. All that leaves goes through a ``Port``,
and documents are read by the function that ``Files`` is given: the room imports no other.
"""

from vetro.workflows.cases import check_expected, differences, run_case
from vetro.workflows.errors import (
    Cancelled,
    CaseError,
    EvaluationError,
    WorkflowError,
    WorkflowSyntaxError,
)
from vetro.workflows.files import Files
from vetro.workflows.functions import queue_of, result_queue_of
from vetro.workflows.guards import persistent_guards
from vetro.workflows.hostnames import services_of, units_of
from vetro.workflows.ports import (
    AgentAnswer,
    AgentRequest,
    Broker,
    Fragment,
    NetworkRequest,
    Port,
    PortError,
    Report,
    WorkflowSettings,
)
from vetro.workflows.source import parse_xml
from vetro.workflows.task import Outcome, Task, compile_workflow
from vetro.workflows.trace import Trace, sanitised
