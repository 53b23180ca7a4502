"""Reading YAML and JSON that came from outside, within limits and with positions.

A text from outside is measured before or while anything is built from it: PyYAML and libyaml recurse in C,
so deep nesting would end the process, and a few aliases can stand for billions of nodes. ``read_yaml`` and
``read_json`` return plain values, ``compose_yaml`` nodes with places; ``measure_yaml`` only says whether
they would. Every error is a ``DocumentError``, a ``ValueError`` with a position; nothing else leaves the
functions, whatever the text is. Nobody else imports ``yaml``: class files, which are measured while they
are read, take events (``open_events``), whose errors are those of PyYAML.
"""

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.jsonvalues import read_json
from vetro.documents.limits import DocumentLimits
from vetro.documents.texts import text_of
from vetro.documents.yamlevents import (
    RESOLVERS,
    TAG,
    WORDS_WITH_MEANING,
    YAML_ERRORS,
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    not_yaml,
    open_events,
    scalar_value,
)
from vetro.documents.yamlvalues import (
    compose_yaml,
    measure_yaml,
    read_yaml,
    read_yaml_and_node,
    safe_loader,
    write_yaml,
    write_yaml_node,
    yaml_value,
)
