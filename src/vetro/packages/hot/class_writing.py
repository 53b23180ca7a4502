"""The class of a Heat package: it deploys the template as a stack of its own."""

from __future__ import annotations

import re

from vetro.packages.hot.parameters import Parameter, condition, literal
from vetro.packages.hot.templates import ENVIRONMENTS, FILES, HotTemplate
from vetro.packages.hot.yaml_writing import Expression, block, in_quotes, scalar

_CONVERSIONS = {"number": "$.int()", "boolean": "$.bool()"}

# The name of the stack is made of ids: a deployment that was cut off before the model was saved has to
# find its stack again (decision 0005).
_CLASS = """\
# Made from template.yaml of the package.
Namespaces:
  std: io.murano
  sys: io.murano.system
Name: @name@
Extends: std:Application
Properties:
  name:
    Contract: $.string().notNull()
  hotEnvironment:
    Contract: $.string()
  templateParameters:
    Contract:@contract@    Default: {}
  templateOutputs:
    Contract:
      $.string(): $
    Usage: Out
    Default: {}
  generatedHeatStackName:
    Contract: $.string()
    Usage: Out
Methods:
  deploy:
    Body:
      - $environment: $.find(std:Environment).require()
      - $reporter: $environment.reporter
      - $reporter.report($this, 'Application deployment has started')
      - $.generatedHeatStackName: $.getAttr(generatedHeatStackName)
      - If: $.generatedHeatStackName = null
        Then:
          - $.generatedHeatStackName: format('hot-{0}_{1}', id($this), id($environment))
          - $.setAttr(generatedHeatStackName, $.generatedHeatStackName)
      - $resources: new(sys:Resources)
      - $parameters: $.templateParameters.items().where($[1] != null).toDict($[0], $[1])
@immutable@      - $stack: $._getStack()
      # What the stack has now is read first: an unchanged deployment updates nothing.
      - $stack.current()
      - $stack.setTemplate($resources.yaml(@resource@))
      - $stack.setParameters($parameters)
@files@      - $stack.setFiles($files)
      - $text: null
      - If: $.hotEnvironment
        Then:
          - $text: $resources.string(@environments@ + $.hotEnvironment)
      - $stack.setHotEnvironment($text)
      - $reporter.report($this, 'Stack creation has started')
      - Try:
          - $stack.push()
          - $outputs: $stack.output()
        Catch:
          - As: error
            Do:
              - $reporter.report_error($this, $error.message)
              - Rethrow:
@keep@      - $.templateOutputs: $outputs.items().toDict($[0],
          switch(isString($[1]) or isList($[1]) or isDict($[1]) => $[1],
                 $[1] = null => null,
                 true => str($[1])))
      - $reporter.report($this, 'Stack was successfully created')
      - $reporter.report($this, 'Application deployment has finished')
  _getStack:
    Body:
      - $environment: $.find(std:Environment).require()
      - Return: new(sys:HeatStack, $this,
          name => $.getAttr(generatedHeatStackName),
          description => format('Application {0} of environment {1}', $.name, $environment.name),
          regionName => $environment.region)
  .destroy:
    Body:
      - If: $.getAttr(generatedHeatStackName) != null
        Then:
          - $._getStack().delete()
"""

_IMMUTABLE = """\
      - $fixed: @names@
      - $before: $.getAttr(immutableParameters)
      - If: $before != null
        Then:
          - $changed: $fixed.where($parameters.get($) != $before.get($)).toList()
          - If: len($changed) > 0
            Then:
              - Throw: ImmutableParameterModified
                Message: !yaql "format('Parameters that cannot be changed: {0}', $changed.join(', '))"
"""
_KEEP = "      - $.setAttr(immutableParameters, $fixed.toDict($, $parameters.get($)))\n"


def class_text(full_name: str, template: HotTemplate) -> str:
    """The text of the class called ``full_name``."""
    contract: dict[str, Expression] = {}
    # With environments the parameters may come from one of them, so any map will do (A6).
    if not template.environments:
        contract = {name: Expression(_contract(one)) for name, one in template.parameters.items()}
    fixed = [name for name, one in template.parameters.items() if one.immutable]
    files = "".join(
        f"          {in_quotes(name)}: "
        + scalar(Expression(f"$resources.string({literal(FILES + name)})"))
        + "\n"
        for name in template.files
    )
    return _filled(
        _CLASS,
        name=in_quotes(full_name),
        resource=literal(full_name),
        contract=f"\n{block(contract, 6)}" if contract else " {}\n",
        immutable=_filled(_IMMUTABLE, names=scalar(fixed)) if fixed else "",
        keep=_KEEP if fixed else "",
        files=f"      - $files:\n{files}" if files else "      - $files: {}\n",
        environments=literal(ENVIRONMENTS),
    )


def _filled(text: str, **parts: str) -> str:
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], text)


def _contract(parameter: Parameter) -> str:
    text = (
        "$.string()" if parameter.is_fractional else _CONVERSIONS.get(parameter.type, "$.string()")
    )
    for one in parameter.constraints:
        rule = condition(parameter, one)
        if rule is not None:
            # What is not given has the template's default.
            text += f".check($ = null or {rule})"
    return text
