"""The words of definitions: attributes and types of fields, and what a type stands for (B3, B4)."""

from __future__ import annotations

ATTRIBUTES = frozenset(
    [
        *("name", "type", "label", "description", "description_title", "help_text", "required"),
        *("hidden", "enabled", "visible", "enabled_if", "initial", "min_length", "max_length"),
        *("min_value", "max_value", "choices", "regexp_validator", "validators"),
        *("error_messages", "confirm_input", "image_type", "requirements", "include_volumes"),
        *("include_snapshots", "filter", "murano_networks", "allow_auto", "include_subnets"),
        *("empty_value_message", "widget_media", "widget_attrs", "attribute_names", "columns"),
        *("max_sync", "multiple"),
    ]
)
"""Every attribute, in snake_case; a translation is ``label.de``."""
TRANSLATED = ("label", "description", "description_title", "help_text", "empty_value_message")
LINE_TYPES = frozenset(["string", "text", "password", "clusterip"])
BOOLEANS = frozenset(["boolean", "floatingip"])
RESOURCES = {
    "flavor": "flavors",
    "image": "images",
    "keypair": "keypairs",
    "azone": "azones",
    "network": "networks",
    "securitygroup": "security_groups",
    "volume": "volumes",
    "zone": "dns_zones",
}
"""Types whose choices the platform offers, and their kinds."""
WORDS = {
    "keypair": "key pair",
    "azone": "availability zone",
    "securitygroup": "security group",
    "zone": "DNS zone",
}
TYPES = frozenset(
    [
        *LINE_TYPES, *BOOLEANS, *RESOURCES, "integer", "databaselist", "choice",
        "domain", "psqlDatabase", "instance", "table",
    ]
)  # fmt: skip
"""Every type but class names."""
OBJECT_TYPES = {
    "domain": ("io.murano.windows.ActiveDirectory", "activeDirectory"),
    "psqlDatabase": ("io.murano.databases.PostgreSql", "postgreSql", "postgreSqlService"),
}
"""Types that choose a component, and the classes (of version 1: services) that fit."""
FIRST = {
    "keypair": "No keypair",
    "securitygroup": "Application default security group",
    "volume": "No volume",
    "zone": "No zone",
}
"""Types whose first choice is none of them, and the label of that choice."""
LACKABLE = frozenset([*FIRST, "azone"])
"""Types of which a platform may have no notion: an empty list never holds up a form (B4)."""
PASSWORD_RULES = (
    (r"^[\s\S]{7,255}$", "Enter 7 to 255 characters"),
    (r"[0-9]", "Use at least one digit"),
    (r"[a-z]", "Use at least one lower-case letter"),
    (r"[A-Z]", "Use at least one upper-case letter"),
    (r"[!@#$%^&*()_+|\\/.,~?><:{}\-]", "Use at least one special character: !@#$%^&*()_+|\\/.,~?><:{}-"),
)  # fmt: skip
