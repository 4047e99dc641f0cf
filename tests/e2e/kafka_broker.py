"""A real Kafka broker (KRaft, one node) for tests, run from a class path that Maven fetches."""

import hashlib
import ipaddress
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from tests.certificates import self_signed
from tests.java import QUICK
from tests.locks import only_one
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_until

_POM = Path(__file__).with_name("broker")
#: The directory with the list of jars, because Maven needs 3 s of processor time for it.
_NOTES = Path(__file__).resolve().parents[2] / ".oriel" / "tests"


#: The user of the listener that requires a password.
USER, PASSWORD = "oriel", "pass=word #1"
#: The password of the broker's key store.
_STORE_SECRET = "of a test"  # noqa: S105 - a test's


class Broker:
    """A broker with its data in a directory, which tests can kill and start again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._class_path = class_path(directory)
        port, sasl_port, controller = reserved_port(), reserved_port(), reserved_port()
        self.address = f"127.0.0.1:{port}"
        #: The address of the listener over TLS that requires USER and PASSWORD.
        self.sasl_address = f"127.0.0.1:{sasl_port}"
        #: The certificate of that listener, as PEM.
        self.certificate = _key_pair(directory)
        self._config = directory / "server.properties"
        self._config.write_text(_configuration(directory, port, sasl_port, controller))
        identity = uuid.uuid4().hex[:22]
        tool = ["kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._config)]
        subprocess.run([*self._java, *tool, "--standalone"], check=True, capture_output=True)
        self.start()

    @property
    def pid(self) -> int:
        """Return the id of the broker's process since its last start."""
        return self._process.pid

    @property
    def _java(self) -> list[str]:
        return ["java", "-Xmx512m", *QUICK.split(), "-cp", self._class_path]

    def start(self) -> None:
        """Start the broker, and wait until it responds."""
        log = self._directory / "broker.log"
        with log.open("a") as output:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._config)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until_it_responds(self.address, self._process, log)

    def pause(self) -> None:
        """Suspend the broker's process."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the broker's process after ``pause``."""
        self._process.send_signal(signal.SIGCONT)

    def ensure_running(self) -> None:
        """Start it if it was killed, because other tests share it."""
        if self._process.poll() is not None:
            self.start()

    def kill(self) -> None:
        """End the broker like a power loss."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running_broker(directory: Path) -> Iterator[str]:
    """Yield the bootstrap address of a new broker with its data in ``directory``."""
    broker = Broker(directory)
    try:
        yield broker.address
    finally:
        broker.kill()


def class_path(directory: Path) -> str:
    """Return a broker's jars for Java's option ``-cp``. Maven's files are in ``directory``."""
    if shutil.which("mvn") is None:
        reason = "mvn not found (Debian: apt-get install maven)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    target = directory / "class-path.txt"
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={target}"]
    digest = hashlib.sha256((_POM / "pom.xml").read_bytes()).hexdigest()[:16]
    note = _NOTES / f"broker-{digest}.txt"
    with only_one("maven"):
        if note.exists() and all(map(os.path.exists, (known := note.read_text()).split(":"))):
            return known
        # Jars in Maven's cache need no network. The first call downloads them.
        offline = subprocess.run(
            ["mvn", "-q", "-B", "--offline", *goal], cwd=_POM, check=False, capture_output=True
        )
        if offline.returncode != 0:
            subprocess.run(["mvn", "-q", "-B", *goal], cwd=_POM, check=True)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(target.read_text())
    return target.read_text()


def messages_of(address: str, topic: str, partitions: int) -> Iterator[Message]:
    """Yield all messages of a topic, partition by partition in order."""
    consumer = Consumer({
        "bootstrap.servers": address, "log_level": 0, "group.id": topic,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([topic])
    ended: set[int | None] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, "the broker is silent"
            if message.error():
                ended.add(message.partition())
            else:
                yield message
    finally:
        consumer.close()


def _key_pair(directory: Path) -> Path:
    """Create ``key.p12`` in ``directory``, a key for 127.0.0.1, and return its certificate."""
    key, made = self_signed("broker", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    secret = BestAvailableEncryption(_STORE_SECRET.encode())
    store = pkcs12.serialize_key_and_certificates(b"broker", key, made, None, secret)
    (directory / "key.p12").write_bytes(store)
    certificate = directory / "certificate.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    return certificate


def _configuration(directory: Path, port: int, sasl_port: int, controller: int) -> str:
    open_listener = f"PLAINTEXT://127.0.0.1:{port}"
    sasl_listener = f"SASL_SSL://127.0.0.1:{sasl_port}"
    protocols = ("PLAINTEXT:PLAINTEXT", "SASL_SSL:SASL_SSL", "CONTROLLER:PLAINTEXT")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required user_{USER}="{PASSWORD}";'
    return "\n".join([
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}",
        f"listeners={open_listener},{sasl_listener},CONTROLLER://127.0.0.1:{controller}",
        f"advertised.listeners={open_listener},{sasl_listener}",
        f"listener.security.protocol.map={','.join(protocols)}",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={login}",
        f"listener.name.sasl_ssl.ssl.keystore.location={directory / 'key.p12'}",
        "listener.name.sasl_ssl.ssl.keystore.type=PKCS12",
        f"listener.name.sasl_ssl.ssl.keystore.password={_STORE_SECRET}",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={directory / 'kafka-data'}",
        # The tests' record times are of 1970, so retention by time would delete them.
        "log.retention.ms=-1",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        # A compacted topic is compacted soon.
        "log.cleaner.backoff.ms=100",
        "group.initial.rebalance.delay.ms=0",
    ])  # fmt: skip


def wait_until_it_responds(address: str, broker: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait for a broker that writes ``log``, and fail if it ends."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def look() -> tuple[object, str]:
        try:
            return admin.list_topics(timeout=2), ""
        except KafkaException as error:
            return None, f"{error}: {log.read_text()[-2000:]}"

    wait_until(look, "a response of the broker", lambda seen: seen[0] is not None, process=broker)
