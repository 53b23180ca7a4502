"""UI definitions without a user interface: describe, submit, build (packages-and-forms.md part B).

    form = load_form(text, package_name="org.acme.Farm", title="Acme farm")
    state = form.begin()                                 # JSON: state.as_json()
    form.describe(state, offers)                         # pages and fields, as JSON
    form.submit("main", {"count": "2"}, state, offers)   # or PageInvalid with the errors by field
    form.build(state, offers)                            # the application's object
    state = reopened(form, component, form.begin())      # its form again, to change it
    changed(form, component, state, offers)

Layers, each a module that opens with what it establishes: ``source`` (text to values with marked
expressions) → ``expressions`` (scopes, functions, limits) → ``offers`` (what can be
chosen), ``vocabulary`` → ``settling`` (values so far) → ``fields`` → ``definition`` (sections) →
``describing``, ``model``, ``version1`` → ``wizard`` (pages and their flow) → ``reading``, ``changing`` →
``reopening`` (a component's form again).
"""

from vetro.packages.forms.cases import run_case
from vetro.packages.forms.class_inputs import owned_classes
from vetro.packages.forms.errors import FormError, NoSuchPage, PageInvalid
from vetro.packages.forms.generated import generated_form
from vetro.packages.forms.hosts import host_fields
from vetro.packages.forms.model import STORAGE_KEY, State
from vetro.packages.forms.offers import KINDS, Component, Offers, PackageOffer
from vetro.packages.forms.phrases import all_in_language
from vetro.packages.forms.reopening import changed, reopened
from vetro.packages.forms.wizard import Form, load_form
