"""All commands of production-cluster.md run on machines with users, rights and a broker."""

import datetime as dt
import json
import os
import re
import shutil
import site
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import java
from tests.campaigns import full
from tests.certificates import write_certificate
from tests.e2e.kafka_broker import PASSWORD, USER, Broker
from tests.object_store import fetched_packages, server_packages
from tests.packaging.wheels import build_wheel
from tests.spark_packages import fetch_connector
from tests.storage.waiting import wait_until
from tests.system.cluster.machines import (
    Machines,
    Started,
    require_machines,
    running_machines,
)
from tests.system.cluster.production_page import PageRun, block_places, placed_files, put
from tests.tidy.project import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
windows = TimeWindows.of_size_with_no_grace(60_000)
flights = builder.stream("flights", "dest STRING").group_by_key()
flights.windowed_by(windows).count().materialize("departures")
topology = builder.build()
"""
_AWS = ("awscli==1.46.3",)
_S3 = "http://127.0.0.1:9000"
_HOST = "oriel.example.org"
_SERVICES = ("serve-1", "serve-2")
_ADDRESSES = {
    "127.0.0.1": ("localhost",), "127.0.0.11": ("head",), "127.0.0.12": ("worker-1",),
    "127.0.0.13": ("worker-2",), "127.0.0.21": ("serve-1",), "127.0.0.22": ("serve-2",),
    "127.0.0.31": ("proxy", _HOST),
}  # fmt: skip
_NAMES = ("head", "worker-1", "worker-2", *_SERVICES, "proxy")
#: Replaces Debian's Python. This environment's packages replace a package registry.
_PYTHON = """#!/bin/sh
set -e
[ "$1 $2" = "-m venv" ]
{python} -m venv --without-pip "$3"
printf '%s\\n' {packages} > "$(echo "$3"/lib/python*/site-packages)/packages.pth"
printf '#!/bin/sh\\nexec %s/bin/python -m pip "$@"\\n' "$3" > "$3/bin/pip"
printf '#!/bin/sh\\nexec {scripts}/spark-class "$@"\\n' > "$3/bin/spark-class"
chmod +x "$3/bin/pip" "$3/bin/spark-class"
"""
_AWS_COMMAND = '#!/bin/sh\nPYTHONPATH={packages} exec {python} -P -m awscli "$@"\n'
_CONNECTOR = """
from pathlib import Path

from oriel.pipeline.sources import kafka_settings
from oriel.pipeline.spark.packages import remember_packages

ivy = Path.home() / ".ivy2.5.2"
jars = sorted((ivy / "jars").glob("*.jar"), key=lambda jar: "token-provider" not in jar.name)
remember_packages(
    {**kafka_settings(), "spark.jars.ivy": str(ivy)}, ",".join(jar.as_uri() for jar in jars)
)
"""


class Production:
    """Machines, a broker, an object store that checks rights, and the page that runs there."""

    def __init__(self, directory: Path, exits: ExitStack) -> None:
        require_machines("nginx", "promtool", "curl", "openssl")
        fetch_connector()
        self._s3, self._aws = server_packages(), fetched_packages("aws", _AWS)
        self.directory = directory
        self._wheel = build_wheel(directory)
        needed = [Path(sys.base_prefix).resolve(), ROOT, self._s3, self._aws]
        environment = {
            "PATH": "/srv/tools:/usr/sbin:/usr/bin:/sbin:/bin",
            "AWS_ENDPOINT_URL": _S3, "AWS_ALLOW_HTTP": "true",
            "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1",
            "SPARK_DAEMON_JAVA_OPTS": java.options(), "SPARK_SUBMIT_OPTS": java.options(),
            # All machines share the ports that listen on all addresses.
            "SPARK_MASTER_WEBUI_PORT": "8180", "SPARK_WORKER_WEBUI_PORT": "8181",
            "SPARK_LAUNCHER_OPTS": os.environ["SPARK_LAUNCHER_OPTS"],
            **({"JAVA_HOME": home} if (home := os.environ.get("JAVA_HOME")) else {}),
        }  # fmt: skip
        self.machines = exits.enter_context(
            running_machines(_ADDRESSES, _NAMES, needed, environment)
        )
        self._make_tools()
        (directory / "broker").mkdir()
        with self.machines.inside():
            self.broker = Broker(directory / "broker")
        exits.callback(self.broker.kill)
        self.keys: dict[str, dict[str, str]] = {}
        self.token = ""
        self.deleted_file = ""
        (directory / "logs").mkdir()
        self.page = PageRun(self.machines, directory / "logs", self.substitute, self._start_s3())

    def _make_tools(self) -> None:
        packages = " ".join(site.getsitepackages())
        scripts = Path(sys.executable).parent
        for machine in self.machines.by_name.values():
            srv = machine.root / "srv"
            shutil.copy(self._wheel, srv)
            (srv / "tools").mkdir()
            for name, text in {
                "python3": _PYTHON.format(
                    python=sys.executable, packages=packages, scripts=scripts
                ),
                "aws": _AWS_COMMAND.format(python=sys.executable, packages=self._aws),
            }.items():
                tool = srv / "tools" / name
                tool.write_text(text)
                tool.chmod(0o755)

    def _start_s3(self) -> dict[str, str]:
        """Start the object store, and return the variables of its administrator."""
        head = self.machines["head"]
        server = head.start(
            f"PYTHONPATH={self._s3} {sys.executable} -P {ROOT}/tests/s3_server.py 9000", "root",
            self.directory / "s3.log",
        )  # fmt: skip
        admin = {"AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "none",
                 "AWS_SECRET_ACCESS_KEY": "none"}  # fmt: skip
        wait_until(
            lambda: head.run(f"curl -s -o /dev/null {_S3} || echo refused"), "the object store",
            lambda printed: "refused" not in printed, process=server.process,
        )  # fmt: skip
        variables = " ".join(f"{name}={value}" for name, value in admin.items())
        policy = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
        made = head.run(
            f"export {variables}\naws iam create-user --user-name admin > /dev/null\n"
            "aws iam put-user-policy --user-name admin --policy-name all "
            f"--policy-document '{json.dumps({'Version': '2012-10-17', **policy})}'\n"
            "aws iam create-access-key --user-name admin\n"
            # From now on, the store checks signatures and policies.
            f"curl -s -H 'Content-Type: text/plain' -d 0 {_S3}/moto-api/reset-auth > /dev/null"
        )
        key = json.loads(made)["AccessKey"]
        return {**admin, "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}  # fmt: skip

    def substitute(self, script: str, machine: str) -> str:
        """Replace placeholders of the page's commands by values of this test.

        This function has all differences between the page and the test.
        """
        key = self.keys.get("oriel-serve" if machine in _SERVICES else "oriel-pipeline", {})
        for placeholder, value in {
            "THE-FILE": self.deleted_file,
            "THE-KEY-ID": key.get("AccessKeyId", ""),
            "THE-SECRET-KEY": key.get("SecretAccessKey", ""),
            "broker:9093": self.broker.sasl_address,
            "--cores 8 --memory 16g": "--cores 1 --memory 1g",
            "--cores 16": "--cores 2",
            "spark.executor.memory=4g": "spark.executor.memory=768m",
        }.items():
            script = script.replace(placeholder, value)
        return f"export ORIEL_TOKEN={self.token}\n{script}" if self.token else script

    def produce(self, keys: list[str], at_ms: int) -> None:
        """Send one record per key to the topic."""
        with self.machines.inside():
            producer = Producer({"bootstrap.servers": self.broker.address, "log_level": 0})
            for key in keys:
                producer.produce("flights", b'{"dest": "IAH"}', key.encode(), timestamp=at_ms)
            assert producer.flush(60) == 0
            del producer

    def put(self, name: str, text: str) -> None:
        """Place a file of ``/etc/oriel``."""
        source = self.directory / name
        source.write_text(text)
        put(self.machines, name, source)

    def get(self, service: str, target: str) -> Any:
        """Return the JSON response of a service to a request with the page's token."""
        return json.loads(self.machines["head"].run(
            f"curl -s --cacert /etc/oriel/ca.pem -H 'Authorization: Bearer {self.token}' "
            f"--connect-to ::{service} 'https://{_HOST}{target}'"
        ))  # fmt: skip

    def wait_for_count(self, service: str, key: str, count: int) -> None:
        """Wait until a service returns a window with that count."""
        target = f"/v1/stores/departures/latest/{key}"
        wait_until(
            lambda: self.get(service, target), f"{count} records of {key}",
            lambda body: [window["count"] for window in body.get("windows", [])] == [count],
            passing=(AssertionError, json.JSONDecodeError),
        )  # fmt: skip


_NOW_MS = int(dt.datetime.now(dt.UTC).timestamp() * 1000) // 60_000 * 60_000


def _can_run(_directory: Path) -> None:
    """Check that each command of the page names a user, and machines that exist."""
    places = block_places()
    assert len(places) > 15
    for block, user, names in places:
        assert user in {"root", "oriel", "admin"}, block.place
        assert set(names) <= set(_NAMES), block.place
    on_machines = {name for row in placed_files() for name in row.machines}
    assert on_machines == set(_NAMES)


def _runs(directory: Path) -> None:
    with ExitStack() as exits:
        _run_all(Production(directory, exits))


@pytest.mark.parametrize("check", [pytest.param(_can_run, id="can run"), *full(_runs, id="runs")])
def test_all_commands_of_the_page(check: Callable[[Path], None], tmp_path: Path) -> None:
    """The commands run in the page's order, on the machines and as the users that it names."""
    check(tmp_path)


def _run_all(production: Production) -> None:
    _install(production)
    pipeline, run = _start_pipeline(production)
    services, serve = _start_services(production)
    _verify(production)
    _renew_the_certificate(production)
    _back_up(production)
    _alert(production)
    _upgrade(production, services[0], serve)
    _roll_back(production, pipeline, run)
    assert services[1].stop() == 0
    restored = serve.replace("oriel-data/flights", "oriel-data/flights-2")
    production.page.start_again(restored, "serve-2", "oriel")
    production.wait_for_count("serve-2:8080", "EWR", 2)
    assert production.page.is_done()
    _check_rights(production)


def _install(production: Production) -> None:
    page, machines = production.page, production.machines
    page.run("useradd")
    _put_connector(machines)
    (made,) = page.run("aws s3api create-bucket").values()
    found = re.findall(r'\{\s*"AccessKey":.*?\}\s*\}', made, re.DOTALL)
    for key in (json.loads(text)["AccessKey"] for text in found):
        production.keys[key["UserName"]] = key
    assert set(production.keys) == {"oriel-pipeline", "oriel-serve"}
    page.run("install -g oriel -m 0640 /dev/stdin /etc/oriel/environment")
    page.run("install -g oriel -m 0640 /dev/stdin /etc/oriel/spark-defaults.conf")
    defaults = machines["head"].root / "etc" / "oriel" / "spark-defaults.conf"
    production.put("spark-defaults.conf", defaults.read_text())


def _put_connector(machines: Machines) -> None:
    """Put the Kafka connector into the directory to which Spark would download it."""
    head = machines["head"]
    jars = Path.home() / ".ivy2.5.2" / "jars"
    shutil.copytree(jars, head.root / "var/lib/oriel/.ivy2.5.2/jars")
    (head.root / "srv" / "connector.py").write_text(_CONNECTOR)
    head.run("chown -R oriel: /var/lib/oriel")
    head.run("/opt/oriel/bin/python connector.py", "oriel")


def _start_pipeline(production: Production) -> tuple[Started, str]:
    page = production.page
    with production.machines.inside():
        admin = AdminClient({"bootstrap.servers": production.broker.address, "log_level": 0})
        admin.create_topics([NewTopic("flights", 2, 1)])["flights"].result(60)
        del admin
    production.produce(["EWR", "JFK"], _NOW_MS)
    production.put("topology.py", _TOPOLOGY)
    production.put("kafka-ca.pem", production.broker.certificate.read_text())
    production.put(
        "client.properties",
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        "ssl.truststore.location=/etc/oriel/kafka-ca.pem\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}";\n',
    )
    ((master,), _) = page.start("export PATH")
    master.wait_for("I have been elected leader")
    workers, _ = page.start("export PATH")
    for worker in workers:
        worker.wait_for("Successfully registered")
    ((pipeline,), run) = page.start("oriel run")
    pipeline.wait_for('"event":"batch"')
    return pipeline, run


def _start_services(production: Production) -> tuple[list[Started], str]:
    page, machines = production.page, production.machines
    (made,) = page.run("/opt/oriel/bin/oriel token").values()
    match = re.search(r"oriel_[\w-]+", made)
    assert match
    production.token = match[0]
    production.put("tokens.toml", (machines["head"].root / "srv" / "tokens.toml").read_text())
    authorities = ""
    for name in ("renewed", "first"):
        directory = production.directory / name
        directory.mkdir()
        days = {"first": 30, "renewed": 90}[name]
        write_certificate(directory, days, host=_HOST, common_name=name)
        authorities += (directory / "cert.pem").read_text()
    _put_certificate(production, "first")
    production.put("ca.pem", authorities)
    services, serve = page.start("oriel serve")
    page.run("install -m 0644 oriel.conf")
    for name in _SERVICES:
        production.wait_for_count(f"{name}:8080", "EWR", 1)
    return services, serve


def _put_certificate(production: Production, name: str) -> None:
    for file in ("cert.pem", "key.pem"):
        production.put(file, (production.directory / name / file).read_text())


def _verify(production: Production) -> None:
    production.wait_for_count("proxy:443", "JFK", 1)
    production.page.run("oriel doctor")


def _renew_the_certificate(production: Production) -> None:
    """The page's commands show the end of the new certificate on all three machines."""
    _put_certificate(production, "renewed")
    renewed = production.directory / "renewed" / "cert.pem"
    ends = production.machines["proxy"].run(
        f"openssl x509 -noout -enddate <<'END'\n{renewed.read_text()}END\n"
    )
    production.page.run_until("nginx -t", lambda printed: printed.count(ends) == 3)


def _back_up(production: Production) -> None:
    """The backup is written to another bucket, and an old version restores a deleted object."""
    page = production.page
    page.again("aws s3api create-bucket --bucket oriel-backups --create-bucket-configuration "
               "LocationConstraint=eu-central-1", "head", "admin")  # fmt: skip
    page.run("oriel backup")
    page.run("aws s3 cp")
    listed = page.again("aws s3 ls --recursive s3://oriel-data/flights/tables/", "head", "admin")
    file = next(re.finditer(r"flights/tables/departures/([\w-]+\.parquet)", listed))
    production.deleted_file = file[1]
    page.again(f"aws s3api delete-object --bucket oriel-data --key {file[0]}", "head", "admin")
    verify = "set -a; . /etc/oriel/environment\noriel verify --data s3://oriel-data/flights"
    assert file[1] in page.again(verify, "head", "oriel", code=1)
    page.run("key=")
    page.again(verify, "head", "oriel")


def _alert(production: Production) -> None:
    """The rules are valid, Prometheus reads both services, and new data arrives."""
    proxy = production.machines["proxy"]
    rules = ROOT / "monitoring" / "prometheus" / "alerts.yml"
    shutil.copy(rules, proxy.root / "srv" / "alerts.yml")
    production.page.run("promtool")
    server = proxy.start(
        "prometheus --config.file=prometheus.yml --storage.tsdb.path=/srv/metrics "
        "--web.listen-address=127.0.0.31:9090", "root", production.directory / "prometheus.log",
    )  # fmt: skip
    wait_until(
        lambda: proxy.run("curl -s 'http://proxy:9090/api/v1/query?query=up' || true"),
        "both services", lambda printed: printed.count(',"1"]') == 2, process=server.process,
    )  # fmt: skip
    assert server.stop() == 0


def _upgrade(production: Production, service: Started, serve: str) -> None:
    page = production.page
    page.run("/opt/oriel/bin/pip")
    assert service.stop() == 0
    page.start_again(serve, "serve-1", "oriel")
    page.run("curl --fail --retry")
    production.wait_for_count("serve-1:8080", "JFK", 1)


def _roll_back(production: Production, pipeline: Started, run: str) -> None:
    """The restored pipeline reads the records since the backup."""
    production.produce(["EWR"], _NOW_MS + 1)
    production.wait_for_count("proxy:443", "EWR", 2)
    assert pipeline.stop() == 0
    page = production.page
    page.run("aws s3 cp")
    page.run("oriel restore")
    run = run.replace("oriel-data/flights", "oriel-data/flights-2").rstrip()
    restored = page.start_again(f"{run} --conf spark.ui.enabled=true\n", "head", "oriel")
    restored.wait_for('"event":"batch"')
    status = "set -a; . /etc/oriel/environment\noriel status --json --data "
    status += "s3://oriel-data/flights-2"
    (store,) = json.loads(page.again(status, "head", "oriel"))["stores"]
    assert store["record"]["counters"]["input"] == 3
    (shown,) = page.run("oriel status").values()
    assert "commit" in shown
    assert "oriel_http_request_seconds" in shown
    assert '"id" : "app-' in shown


def _check_rights(production: Production) -> None:
    """Each action is needed: without it, the object store rejects a command of the page."""
    commands = {
        "pipeline": ("head", "oriel doctor --data {data}\noriel backup --data {data} --to b"),
        "serve": ("serve-1", "oriel backup --data {data} --to b"),
    }
    for user, (machine, command) in commands.items():
        policy = json.loads((production.machines["head"].root / f"srv/{user}.json").read_text())
        (statement,) = policy["Statement"]
        actions = list(statement["Action"])
        used = command.format(data="s3://oriel-data/flights-2")
        script = f"exec 2>&1\nset -a; . /etc/oriel/environment\ncd $(mktemp -d)\n{used}"
        production.page.again(script, machine, "oriel")
        for action in actions:
            statement["Action"] = [other for other in actions if other != action]
            production.page.again(
                f"aws iam put-user-policy --user-name oriel-{user} --policy-name data "
                f"--policy-document '{json.dumps(policy)}'", "head", "admin",
            )  # fmt: skip
            refused = production.page.again(script, machine, "oriel", code=1)
            assert re.search("refuses access|AccessDenied", refused), f"{action}: {refused}"
