"""The deployment framework by hand in plain Python, with what its classes demand checked by hand.

Beside contracts it has what the program can observe: ids, owners and the store of attributes.
"""

import random


def check(value, kind, null=False):
    """What `$.class(kind)`, `$.string()` and so on demand; the value."""
    if value is None and null:
        return value
    if not isinstance(value, kind) or (kind is int and value.__class__ is bool):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


class Checked:
    """An object with an id and an owner, whose attributes obey `rules`: name, kind, null allowed."""

    rules = {}
    identity = random.Random(1)

    def __init__(self, owner=None):
        object.__setattr__(self, "id", f"{self.identity.getrandbits(128):032x}")
        object.__setattr__(self, "owner", owner)

    def __setattr__(self, name, value):
        rule = self.rules.get(name)
        if rule is None:
            raise AttributeError(name)
        kind, null, element = rule
        check(value, kind, null)
        if element is not None:
            for item in value:
                check(item, element)
        object.__setattr__(self, name, value)


class CheckedEvent(Checked):
    rules = {"name": (str, False, None), "subscriptions": (list, False, None)}

    def __init__(self, name, owner):
        super().__init__(owner)
        self.name = name
        self.subscriptions = []

    def subscribe(self, subscriber, method_name):
        check(subscriber, Checked)
        check(method_name, str)
        self.subscriptions = [*self.subscriptions, (subscriber, method_name)]

    def notify(self, sender, *args):
        check(sender, Checked)
        for subscriber, method_name in self.subscriptions:
            getattr(subscriber, method_name)(sender, *args)


class CheckedServer(Checked):
    rules = {
        "name": (str, False, None),
        "address": (str, True, None),
        "deployed": (bool, False, None),
    }

    def __init__(self, name, owner):
        super().__init__(owner)
        self.name = name
        self.address = None
        self.deployed = False

    def deploy(self):
        if not self.deployed:
            self.address = "10.0.0." + str(len(self.name))
            self.deployed = True


class CheckedProvider(Checked):
    rules = {
        "template": (dict, False, None),
        "pattern": (str, False, None),
        "allocated": (int, False, None),
        "capacity": (int, True, None),
    }

    def __init__(self, template, pattern, capacity=None):
        super().__init__()
        self.template = template
        self.pattern = pattern
        self.capacity = capacity
        self.allocated = 0

    def create_replica(self, index, owner):
        check(index, int)
        check(owner, Checked, True)
        if self.capacity is not None and self.allocated >= self.capacity:
            return None
        self.allocated = self.allocated + 1
        template = {**self.template, "name": self.pattern.format(index)}
        return CheckedServer(template["name"], owner)


class CheckedComposite(Checked):
    rules = {"providers": (list, False, CheckedProvider)}

    def __init__(self, providers):
        super().__init__()
        self.providers = providers

    def create_replica(self, index, owner):
        check(index, int)
        check(owner, Checked, True)
        for provider in self.providers:
            made = provider.create_replica(index, owner)
            if made is not None:
                return made
        return None


class CheckedGroup(Checked):
    rules = {
        "provider": (CheckedComposite, False, None),
        "num_items": (int, False, None),
        "items": (list, False, Checked),
    }

    def __init__(self, provider, num_items=1):
        super().__init__()
        self.provider = provider
        self.num_items = num_items
        self.items = []

    def deploy(self):
        items = self.items
        for _ in range(self.num_items - len(items)):
            replica = self.provider.create_replica(len(items) + 1, self)
            if replica is None:
                break
            items = [*items, replica]
        self.items = items
        for server in self.items:
            server.deploy()

    def scale(self, delta=1):
        check(delta, int)
        self.num_items = max(self.num_items + delta, 0)
        self.deploy()

    def get_servers(self):
        return self.items

    def get_key(self):
        return sorted(server.name for server in self.items)


class CheckedComponent(Checked):
    rules = {
        "install_event": (CheckedEvent, False, None),
        "allowed_failures": (int, False, None),
        "configured": (dict, False, str),
    }
    name = "component"

    def __init__(self, store, allowed_failures=0):
        super().__init__()
        object.__setattr__(self, "store", store)
        self.install_event = CheckedEvent("install", self)
        self.allowed_failures = allowed_failures
        self.configured = {}

    def deploy_at(self, group):
        check(group, CheckedGroup)
        group.deploy()
        self.install(group)
        self.configure(group)

    def is_installed(self, server):
        check(server, CheckedServer)
        return self.store.get((self.id, "Installable", "installed_at_" + server.id), False)

    def install(self, group):
        check(group, CheckedGroup)
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
        check(server, CheckedServer)
        check(group, CheckedGroup)
        try:
            self.install_event.notify(self, server, group)
            self.on_install_server(server, group)
            self.store[self.id, "Installable", "installed_at_" + server.id] = True
        except ValueError:
            return server
        return None

    def configure(self, group):
        check(group, CheckedGroup)
        key = self.get_configuration_key(group)
        for server in group.get_servers():
            if self.configured.get(server.name) != key:
                self.on_configure_server(server, group)
                self.configured[check(server.name, str)] = check(key, str)

    def get_configuration_key(self, group):
        check(group, CheckedGroup)
        return self.name + ":" + str(len(group.get_key()))

    def on_install_server(self, server, group):
        check(server, CheckedServer)
        check(group, CheckedGroup)

    def on_configure_server(self, server, group):
        check(server, CheckedServer)
        check(group, CheckedGroup)


class CheckedWeb(CheckedComponent):
    rules = {
        **CheckedComponent.rules,
        "port": (int, False, None),
        "log": (list, False, str),
    }
    name = "web"

    def __init__(self, store, port=80, allowed_failures=0):
        super().__init__(store, allowed_failures)
        if not 0 < port < 65536:
            raise ValueError(port)
        self.port = port
        self.log = []

    def on_install_server(self, server, group):
        super().on_install_server(server, group)
        if server.name.endswith("13"):
            raise ValueError(f"{server.name} does not install")
        self.log.append(check(f"{server.name}:{self.port}", str))

    def on_configure_server(self, server, group):
        super().on_configure_server(server, group)
        self.log.append(check(server.name + "/" + str(len(group.items) - 1), str))


class CheckedDatabase(CheckedComponent):
    rules = {
        **CheckedComponent.rules,
        "master": (CheckedServer, True, None),
        "installs": (int, False, None),
    }
    name = "db"

    def __init__(self, store):
        super().__init__(store)
        self.master = None
        self.installs = 0

    def on_install_server(self, server, group):
        super().on_install_server(server, group)
        if self.master is None:
            self.master = server
        self.installs = self.installs + 1


class CheckedMain(Checked):
    rules = {"events": (int, False, None)}

    def __init__(self):
        super().__init__()
        self.events = 0

    def on_install(self, sender, server, group):
        check(sender, Checked)
        check(server, CheckedServer)
        check(group, CheckedGroup)
        self.events = self.events + 1


def j_framework_checked(n):
    """The same with the contracts checked, identities, owners and the store of attributes."""
    main = CheckedMain()
    store = {}
    names = []
    log = installs = unlucky = 0
    for g in range(n // 20):
        server = {"?": {"type": "bench.j.Server"}}
        group = CheckedGroup(
            CheckedComposite(
                [
                    CheckedProvider(dict(server), f"web{g}-{{0}}", 4),
                    CheckedProvider(dict(server), f"db{g}-{{0}}"),
                ],
            ),
            16,
        )
        web, db = CheckedWeb(store, 8000 + g % 100, 2), CheckedDatabase(store)
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
