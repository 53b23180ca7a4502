#!/usr/bin/env python3
"""The stand-in programs by hand in plain Python: what a person would write for the same result.

usage: python plain_python.py PROGRAM N

One line of JSON; `seconds` is the median processor time of several runs, `result_digest` that of
the value, as `run_program.py` computes it. No contracts, permissions or contexts, except where the
outcome depends on them; `j_framework_checked` checks what the classes of the program demand, and
`i_parallel_tasks` runs its parallel work in tasks, as `i_parallel` does not.
"""

import asyncio
import json
import re
import resource
import sys
import time

from checked_framework import Checked, CheckedEvent, check, j_framework_checked
from common import digest


def d_strings(n):
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    lines = [
        f"2020-01-02 host-{i % 13} [{levels[i % 4]}] user=u{i * 7 % 101} took {i * 31 % 997}ms "
        f"path=/api/v{i % 3}/items/{i}"
        for i in range(n)
    ]
    slow = words = 0
    hosts = {}
    report = []
    timing = re.compile("user=(?P<user>u[0-9]+) took ([0-9]+)ms")
    error = re.compile(".*\\[ERROR\\].*")
    version = re.compile("v[12]/")
    for line in lines:
        match = timing.search(line)
        user, took = match["user"], int(match[2])
        if took > 500:
            slow += 1
        parts = line.split(" ")
        host = parts[1].replace("host-", "node").upper()
        hosts[host] = hosts.get(host, 0) + took
        words += len(parts)
        if error.match(line) and version.search(line):
            report.append(host + ":" + user + ":" + line[line.index("path=") + 5 :])
    number = re.compile("[0-9]+")
    clean = [number.sub("#", item) for item in report]
    joined = ",".join(sorted({item.split(":")[0].lower().strip() for item in report}))
    masked = ["|".join(part.strip("v") for part in line.split("/")) for line in lines]
    return {
        "slow": slow,
        "words": words,
        "hosts": sorted([k, v] for k, v in hosts.items()),
        "report": len(report),
        "first": report[0] if report else "",
        "clean": len(set(clean)),
        "joined": joined,
        "masked": sum(len(item) for item in masked if item.endswith("7")),
        "title": report[-1].replace("u", "U").replace("/", "-") if report else "",
    }


def merge(left, right):
    """A map with another one merged into it, maps inside as well."""
    result = dict(left)
    for key, value in right.items():
        known = result.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            result[key] = merge(known, value)
        else:
            result[key] = value
    return result


def g_templates(n):
    template = {
        "heat_template_version": "2013-05-23",
        "description": "built",
        "resources": {},
        "outputs": {},
    }
    names = []

    def add_instance(name, number):
        port = name + "-port"
        template["resources"][port] = {
            "type": "OS::Neutron::Port",
            "properties": {
                "network_id": "net",
                "fixed_ips": [{"subnet_id": f"subnet-{number % 4}"}],
            },
        }
        server = {
            "type": "OS::Nova::Server",
            "properties": {
                "name": name,
                "flavor": "m1.small",
                "networks": [{"port": {"get_resource": port}}],
                "metadata": {"index": number},
            },
        }
        if number % 3 == 0:
            server["properties"]["key_name"] = "key"
            server["depends_on"] = [port]
        template["resources"][name] = server
        template["outputs"][name + "-address"] = {
            "value": {"get_attr": [port, "fixed_ips", 0, "ip_address"]}
        }
        names.append(name)

    order = []
    for i in range(n):
        name = f"vm-{i}"
        add_instance(name, i)
        order.append(name)
    extra = {}
    for name in order:
        extra[name + "-fip"] = {"type": "OS::Neutron::FloatingIP", "properties": {"port": name}}
    params = {"parameters": {}}
    for name in order:
        params["parameters"][name] = {"type": "string", "default": name.upper()}
    plan = {"steps": [], "count": 0}
    for name in order:
        plan["steps"].append({"kind": "create", "target": name})
        plan["count"] += 1
    everything = merge(merge(template, {"resources": extra}), params)
    return {
        "resources": sorted(everything["resources"]),
        "outputs": len(everything["outputs"]),
        "parameters": [item["default"] for item in everything["parameters"].values()],
        "sample": everything["resources"].get("vm-0"),
        "steps": len(plan["steps"]),
        "count": plan["count"],
        "names": names,
        "bound": {"servers": ["f", "b-back"], "f": {"role": "web"}},
    }


class Small(Exception):
    def __init__(self, message, value):
        super().__init__(message)
        self.value = value


class Odd(Exception):
    pass


class Inner(Exception):
    pass


def risky(i):
    if i % 7 == 0:
        raise Small(f"too small: {i}", i % 10)
    if i % 5 == 1:
        raise Odd("odd one")
    if i % 11 == 3:
        return {"a": 1}["missing"]
    return i


def nested(i):
    try:
        try:
            if i % 4 == 1:
                raise Inner("inside")
        except Inner:
            raise
        finally:
            i = i + 1
    except Inner:
        return "deep"
    return "flat"


def h_control(n):
    total = cleaned = fine = 0
    caught = {"small": 0, "odd": 0, "other": 0}
    for i in range(n):
        try:
            total += risky(i)
        except Small as error:
            caught["small"] += 1
            total += error.value
        except Odd:
            caught["odd"] += 1
        except KeyError:
            caught["other"] += 1
        else:
            fine += 1
        finally:
            cleaned += 1
        case = i % 4
        if case == 0:
            total += 1
        elif case == 1:
            total += 2
        elif case == 2:
            total += 3
        else:
            total -= 1
        matched = False
        if i % 2 == 0:
            total += 5
            matched = True
        if i % 3 == 0:
            total += 7
            matched = True
        if not matched:
            total += 11
        j = 0
        while True:
            j += 1
            if j == 2:
                continue
            if j >= 4:
                break
            total += j
        for _ in range(2):
            total += 1
        total %= 1000003
        if nested(i) == "deep":
            total += 1
    return {"sum": total, "caught": caught, "cleaned": cleaned, "fine": fine}


class Worker:
    def __init__(self, number):
        self.number = number
        self.state = None
        self.done = False

    def work(self):
        self.state = "working"
        total = 0
        for i in range(10):
            total += self.step(i)
        self.done = True
        self.state = "done"
        return total

    def step(self, i):
        return (i * self.number + 7) % 101

    def may_fail(self, modulus):
        if self.number % modulus == modulus - 1:
            raise ValueError(str(self.number))


def i_parallel(n):
    workers = [Worker(i) for i in range(n)]
    results = [worker.work() for worker in workers]
    total = batches = 0
    for start in range(0, n, 8):
        chunk = workers[start : start + 8]
        a = sum(worker.number for worker in chunk)
        b = len(chunk) * 2
        c = 0
        for worker in chunk:
            c += worker.step(worker.number)
        total = (total + a + b + c) % 1000003
        batches += 1
    failed = 0
    errors = []
    for worker in workers:
        try:
            worker.may_fail(97)
        except ValueError as error:
            errors.append(error)
    if errors:
        failed = int(str(errors[0]))
    return {
        "results": sum(results),
        "total": total,
        "batches": batches,
        "failed": failed,
        "states": list(dict.fromkeys(worker.state for worker in workers)),
        "done": len([worker for worker in workers if worker.done]),
    }


def i_parallel_tasks(n):
    """The same with the work beside each other: a task for each worker, a lock for its method."""
    return asyncio.run(_i_parallel_tasks(n))


class TaskWorker(Worker):
    def __init__(self, number):
        super().__init__(number)
        self.lock = asyncio.Lock()

    async def work(self):
        async with self.lock:
            self.state = "working"
            await asyncio.sleep(0)
            total = 0
            for i in range(10):
                total += self.step(i)
            self.done = True
            self.state = "done"
            return total

    async def may_fail_later(self, modulus):
        self.may_fail(modulus)


async def _i_parallel_tasks(n):
    workers = [TaskWorker(i) for i in range(n)]
    results = await asyncio.gather(*[worker.work() for worker in workers])
    total = batches = 0
    for start in range(0, n, 8):
        chunk = workers[start : start + 8]
        found = {}
        width = asyncio.Semaphore(2)

        async def numbers(chunk=chunk, found=found, width=width):
            async with width:
                found["a"] = sum(worker.number for worker in chunk)

        async def length(chunk=chunk, found=found, width=width):
            async with width:
                found["b"] = len(chunk) * 2

        async def steps(chunk=chunk, found=found, width=width):
            async with width:
                c = 0
                for worker in chunk:
                    c += worker.step(worker.number)
                found["c"] = c

        await asyncio.gather(numbers(), length(), steps())
        total = (total + found["a"] + found["b"] + found["c"]) % 1000003
        batches += 1
    ends = await asyncio.gather(
        *[worker.may_fail_later(97) for worker in workers], return_exceptions=True
    )
    errors = [end for end in ends if end is not None]
    return {
        "results": sum(results),
        "total": total,
        "batches": batches,
        "failed": int(str(errors[0])) if errors else 0,
        "states": list(dict.fromkeys(worker.state for worker in workers)),
        "done": len([worker for worker in workers if worker.done]),
    }


class Event:
    def __init__(self, name):
        self.name = name
        self.subscriptions = []

    def subscribe(self, subscriber, method_name):
        self.subscriptions.append((subscriber, method_name))

    def notify(self, sender, *args):
        for subscriber, method_name in self.subscriptions:
            getattr(subscriber, method_name)(sender, *args)


class Server:
    def __init__(self, name):
        self.name = name
        self.address = None
        self.deployed = False

    def deploy(self):
        if not self.deployed:
            self.address = "10.0.0." + str(len(self.name))
            self.deployed = True


class ServerProvider:
    def __init__(self, pattern, capacity=None):
        self.pattern = pattern
        self.capacity = capacity
        self.allocated = 0

    def create_replica(self, index, owner):
        if self.capacity is not None and self.allocated >= self.capacity:
            return None
        self.allocated += 1
        server = Server(self.pattern.format(index))
        server.owner = owner
        return server


class CompositeProvider:
    def __init__(self, providers):
        self.providers = providers

    def create_replica(self, index, owner):
        for provider in self.providers:
            made = provider.create_replica(index, owner)
            if made is not None:
                return made
        return None


class ReplicationGroup:
    def __init__(self, provider, num_items=1):
        self.provider = provider
        self.num_items = num_items
        self.items = []

    def deploy(self):
        for _ in range(self.num_items - len(self.items)):
            replica = self.provider.create_replica(len(self.items) + 1, self)
            if replica is None:
                break
            self.items.append(replica)

    def scale(self, delta=1):
        self.num_items = max(self.num_items + delta, 0)
        self.deploy()


class ServerGroup(ReplicationGroup):
    def deploy(self):
        super().deploy()
        for server in self.items:
            server.deploy()

    def get_servers(self):
        return self.items

    def get_key(self):
        return sorted(server.name for server in self.items)


class SoftwareComponent:
    name = "component"

    def __init__(self, allowed_failures=0):
        self.install_event = Event("install")
        self.allowed_failures = allowed_failures
        self.installed = set()
        self.configured = {}

    def deploy_at(self, group):
        group.deploy()
        self.install(group)
        self.configure(group)

    def is_installed(self, server):
        return id(server) in self.installed

    def install(self, group):
        if all(self.is_installed(server) for server in group.get_servers()):
            return
        failed = []
        for server in group.get_servers():
            if not self.is_installed(server):
                result = self.install_server(server, group)
                if result is not None:
                    failed.append(result)
        if len(failed) > self.allowed_failures:
            raise RuntimeError(f"Too many errors ({len(failed)})")

    def install_server(self, server, group):
        try:
            self.install_event.notify(self, server, group)
            self.on_install_server(server, group)
            self.installed.add(id(server))
        except ValueError:
            return server
        return None

    def configure(self, group):
        key = self.name + ":" + str(len(group.get_key()))
        for server in group.get_servers():
            if self.configured.get(server.name) != key:
                self.on_configure_server(server, group)
                self.configured[server.name] = key

    def on_install_server(self, server, group):
        pass

    def on_configure_server(self, server, group):
        pass


class WebServer(SoftwareComponent):
    name = "web"

    def __init__(self, port=80, allowed_failures=0):
        super().__init__(allowed_failures)
        self.port = port
        self.log = []

    def on_install_server(self, server, group):
        if server.name.endswith("13"):
            raise ValueError(f"{server.name} does not install")
        self.log.append(f"{server.name}:{self.port}")

    def on_configure_server(self, server, group):
        self.log.append(server.name + "/" + str(len(group.items) - 1))


class Database(SoftwareComponent):
    name = "db"

    def __init__(self):
        super().__init__()
        self.master = None
        self.installs = 0

    def on_install_server(self, server, group):
        if self.master is None:
            self.master = server
        self.installs += 1


class Main:
    def __init__(self):
        self.events = 0

    def on_install(self, sender, server, group):
        self.events += 1


def j_framework(n):
    main = Main()
    names = []
    log = installs = unlucky = 0
    for g in range(n // 20):
        group = ServerGroup(
            CompositeProvider(
                [ServerProvider(f"web{g}-{{0}}", 4), ServerProvider(f"db{g}-{{0}}")],
            ),
            16,
        )
        web, db = WebServer(8000 + g % 100, 2), Database()
        web.install_event.subscribe(main, "on_install")
        db.install_event.subscribe(main, "on_install")
        web.deploy_at(group)
        db.deploy_at(group)
        group.scale(4)
        web.deploy_at(group)
        db.deploy_at(group)
        names.append(group.get_key()[-1])
        log += len(web.log)
        installs += db.installs
        unlucky += len([server for server in group.items if not web.is_installed(server)])
    return {
        "names": names,
        "log": log,
        "installs": installs,
        "unlucky": unlucky,
        "events": main.events,
    }


class SharedServer(Checked):
    rules = {"name": (str, False, None), "told": (int, False, None)}

    def __init__(self, name, owner):
        super().__init__(owner)
        self.name = name
        self.told = 0

    def on_event(self, sender):
        check(sender, Checked)
        self.told = self.told + 1


class SharedGroup(Checked):
    rules = {"servers": (list, False, None), "template": (dict, False, None)}

    def __init__(self):
        super().__init__()
        self.servers = []
        self.template = {"resources": {}}


def k_shared(n):
    """One template and one group of n servers, changed in place; contracts checked."""
    group, event = SharedGroup(), CheckedEvent("changed", None)
    for number in range(n):
        server = SharedServer(f"server-{number}", group)
        group.template["resources"][server.name] = {
            "type": "OS::Nova::Server",
            "properties": {"name": server.name},
        }
        check(server, Checked)
        event.subscriptions.append((server, "on_event"))
        group.servers.append(server)
    event.notify(group)
    resources = len(group.template["resources"])
    for _ in range(n // 2):
        del group.template["resources"][group.servers.pop().name]
    return {
        "resources": resources,
        "left": len(group.template["resources"]),
        "servers": len(group.servers),
        "told": sum(server.told for server in group.servers),
    }


PROGRAMS = {
    function.__name__: function
    for function in (
        *(d_strings, g_templates, h_control, i_parallel, i_parallel_tasks),
        *(j_framework, j_framework_checked, k_shared),
    )
}


def main():
    name, n = sys.argv[1], int(sys.argv[2])
    program = PROGRAMS[name]
    value = program(n)
    started = time.process_time()
    program(n)
    once = time.process_time() - started
    times = []
    for _ in range(max(5, min(2000, int(0.3 / max(once, 1e-6))))):
        started = time.process_time()
        value = program(n)
        times.append(time.process_time() - started)
    times.sort()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report = {
        "engine": "plain-python",
        "program": name,
        "n": n,
        "ops": n,
        "seconds": times[len(times) // 2],
        "best_seconds": times[0],
        "runs": len(times),
        "load_seconds": 0.0,
        "result_digest": digest(value),
        "peak_rss_mb": round(peak, 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
