"""The plan that carries a software configuration out in a guest.

What the guest does, as Heat's agent does it: where the image has a hook for the configuration's group
(`/var/lib/heat-config/hooks/GROUP`), the hook gets the configuration as JSON on its input and prints
the outputs as JSON. Otherwise a text of the group `script`, or one that begins with `#!`, is run with
the inputs in its environment; it writes each output into a file named `$heat_outputs_path.NAME`.
A map, or a text that nobody runs, is written below `/var/lib/heat-config/deployed`.
"""

from __future__ import annotations

from vetro.stacks.model import Json

# Runs in guests: Python 3.6, standard library only.
BODY = """
import json, os, stat, subprocess, tempfile
given = json.loads(args.deployment)
home = os.environ.get("VETRO_GUEST_ROOT", "") + "/var/lib/heat-config"
deployed = os.path.join(home, "deployed")
os.makedirs(deployed, mode=0o700, exist_ok=True)
group, config, known = given["group"], given["config"], {}
folder = tempfile.mkdtemp(prefix="vetro-deployment-")
outputs = os.path.join(folder, "outputs")
environment = dict(os.environ, heat_outputs_path=outputs)
for one in given["inputs"]:
    value = one["value"]
    environment[one["name"]] = value if isinstance(value, str) else json.dumps(value)

def run(command, text=""):
    # Into files: a daemon that the configuration leaves behind would keep pipes open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=environment, cwd=folder
        )
        try:
            child.communicate(text.encode("utf-8"))
        except BrokenPipeError:
            child.wait()
        out.seek(0)
        err.seek(0)
        texts = [one.read().decode("utf-8", "replace") for one in (out, err)]
        return child.returncode, texts[0], texts[1]

try:
    hook = os.path.join(home, "hooks", os.path.basename(group)) if group else ""
    written = config if isinstance(config, str) else json.dumps(config)
    if hook and os.access(hook, os.X_OK):
        code, out, err = run([hook], json.dumps(given))
        try:
            parsed = json.loads(out)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            known = parsed
            code = int(parsed.get("deploy_status_code") or code)
            out, err = str(parsed.get("deploy_stdout") or ""), str(parsed.get("deploy_stderr") or err)
    elif isinstance(config, str) and (group == "script" or written.startswith("#!")):
        path = os.path.join(folder, "config")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(written)
        os.chmod(path, stat.S_IRWXU)
        code, out, err = run([path] if written.startswith("#!") else ["/bin/sh", path])
        for name in given["outputs"]:
            try:
                with open(outputs + "." + name, encoding="utf-8", errors="replace") as stream:
                    known[name] = stream.read()
            except OSError:
                pass
    elif group.lower() in ("", "ungrouped", "heat::ungrouped", "os-apply-config", "script"):
        with open(os.path.join(deployed, given["id"] + ".json"), "w", encoding="utf-8") as stream:
            stream.write(written)
        code, out, err = 0, "", ""
    else:
        code, out = 127, ""
        err = "There is no hook for the group %s in this image: it would be %s" % (group, hook)
finally:
    import shutil
    shutil.rmtree(folder, ignore_errors=True)
return {
    "deploy_status_code": code,
    "deploy_stdout": out,
    "deploy_stderr": err,
    "outputs": {name: known[name] for name in given["outputs"] if name in known},
}
"""


def plan_of(plan_id: str, name: str, deployment: str, seconds: float) -> dict[str, Json]:
    """The plan of a deployment, whose description is JSON text. It may run for `seconds`."""
    return {
        "FormatVersion": "2.0.0",
        "Version": "1.0.0",
        "Name": name,
        "ID": plan_id,
        "Action": "Execute",
        "Timeout": seconds,
        "Parameters": {"deployment": deployment},
        "Body": BODY,
        "Scripts": {},
        "Files": {},
    }
