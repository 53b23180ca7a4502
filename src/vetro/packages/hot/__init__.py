"""Heat templates as packages: `Heat.HOT/1.0` (packages-and-forms.md A6).

Such a package has a template instead of classes. ``read_template`` reads and checks what the template
declares; ``class_text`` writes the one class that deploys it, ``form_text`` the form that asks for its
parameters. Both are ordinary YAML, which the language and the forms read like an author's.
"""

from vetro.packages.hot.class_writing import class_text
from vetro.packages.hot.form_writing import form_text
from vetro.packages.hot.templates import (
    CLASS_FILE,
    ENVIRONMENTS,
    FILES,
    TEMPLATE,
    HotTemplate,
    examine_template,
    read_template,
)
