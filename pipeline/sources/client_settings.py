"""Settings of librdkafka from the options of Kafka's Java client.

Users write the options of the Java client, because Kafka's documentation does. Most options have
another name in librdkafka, and some need a file or a login to be read.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from oriel.pipeline.errors import InvalidKafkaOption

#: Options with an equal meaning -> their name in librdkafka.
_RENAMED = {
    **{
        name: name
        for name in (
            "allow.auto.create.topics",
            "client.dns.lookup",
            "client.id",
            "client.rack",
            "connections.max.idle.ms",
            "metadata.max.age.ms",
            "reconnect.backoff.max.ms",
            "reconnect.backoff.ms",
            "retry.backoff.max.ms",
            "retry.backoff.ms",
            "sasl.kerberos.service.name",
            "sasl.mechanism",
            "security.protocol",
            "socket.connection.setup.timeout.ms",
            "ssl.cipher.suites",
            "ssl.key.password",
        )
    },
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
#: Options of consumers only, as ``_RENAMED``.
_CONSUMER_OPTIONS = {
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "fetch.min.bytes": "fetch.min.bytes",
    "group.id": "group.id",
    "isolation.level": "isolation.level",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
}
#: Options of producers only.
_PRODUCER_OPTIONS = {
    "batch.size": "batch.size",
    "compression.type": "compression.type",
    "delivery.timeout.ms": "message.timeout.ms",
    "linger.ms": "linger.ms",
    "max.request.size": "message.max.bytes",
    "transaction.timeout.ms": "transaction.timeout.ms",
}
#: Options that Oriel sets or does not use: of groups, of the poll loop and of transactions.
_IGNORED = {
    "acks",
    "buffer.memory",
    "default.api.timeout.ms",
    "enable.idempotence",
    "group.instance.id",
    "heartbeat.interval.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "retries",
    "session.timeout.ms",
    "ssl.protocol",
}
#: Options that the functions below read.
_READ_TOGETHER = {
    "sasl.jaas.config",
    "ssl.endpoint.identification.algorithm",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
_JAAS = "sasl.jaas.config"
_FLAGS = "required|requisite|sufficient|optional"
_LOGIN = re.compile(rf"\s*([\w.$]+)\s+(?:{_FLAGS})\s+(.*);\s*", re.DOTALL)
_LOGIN_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


class UntranslatableOption(InvalidKafkaOption):
    """Raised if librdkafka has no equivalent of an option. The message names the option."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"Kafka's option {option}: {reason}")


def client_settings(servers: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a consumer of librdkafka for options of the Java client.

    Args:
        servers: The addresses of brokers, ``host:port`` separated by commas.
        options: Options by their name in the Java client.

    Returns:
        Settings by their name in librdkafka. Their values can be secrets.

    Raises:
        UntranslatableOption: librdkafka has no such option, or not this value of it.

    Example:
        >>> client_settings("kafka:9092", {"fetch.max.wait.ms": "100"})
        {'bootstrap.servers': 'kafka:9092', 'fetch.wait.max.ms': '100'}
    """
    return _translated(servers, options, _CONSUMER_OPTIONS)


def producer_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a producer of librdkafka for options of the Java client.

    Args:
        options: Options by their name in the Java client, with ``bootstrap.servers``.

    Returns:
        Settings by their name in librdkafka. Their values can be secrets.

    Raises:
        UntranslatableOption: librdkafka has no such option, or not this value of it.

    Example:
        >>> producer_settings({"bootstrap.servers": "kafka:9092", "max.request.size": "5000000"})
        {'bootstrap.servers': 'kafka:9092', 'message.max.bytes': '5000000'}
    """
    client_options = {name: value for name, value in options.items() if name != "bootstrap.servers"}
    return _translated(options["bootstrap.servers"], client_options, _PRODUCER_OPTIONS)


def _translated(
    servers: str, options: Mapping[str, str], role_options: Mapping[str, str]
) -> dict[str, str]:
    """Return settings of a consumer or a producer, which has the options ``role_options``."""
    settings = {"bootstrap.servers": servers}
    renamed = {**_RENAMED, **role_options}
    # Users set one group of options for both clients, and each client uses its own.
    unused = _IGNORED | _READ_TOGETHER | _CONSUMER_OPTIONS.keys() | _PRODUCER_OPTIONS.keys()
    for name, value in options.items():
        if name in renamed:
            settings[renamed[name]] = value
        elif name not in unused:
            reason = "librdkafka has no such option"
            raise UntranslatableOption(name, reason)
    if "sasl.jaas.config" in options:
        settings |= _login(options["sasl.jaas.config"], options.get("sasl.mechanism", "GSSAPI"))
    elif options.get("security.protocol", "").startswith("SASL"):
        option, reason = "security.protocol", "sasl.jaas.config is missing"
        raise UntranslatableOption(option, reason)
    if "ssl.endpoint.identification.algorithm" in options:
        algorithm = options["ssl.endpoint.identification.algorithm"] or "none"
        settings["ssl.endpoint.identification.algorithm"] = algorithm
    return settings | _trusted(options) | _own_certificate(options)


def _login(jaas: str, mechanism: str) -> dict[str, str]:
    """Return the login of a JAAS text of PLAIN, SCRAM or OAUTHBEARER."""
    text = _LOGIN.fullmatch(jaas)
    if text is None:
        reason = "it is not one login module with options"
        raise UntranslatableOption(_JAAS, reason)
    module = text[1].rsplit(".", 1)[-1]
    login_options = {
        match[1]: re.sub(r"\\(.)", r"\1", match[2]) if match[2] is not None else match[3]
        for match in _LOGIN_OPTION.finditer(text[2])
    }
    if module in {"PlainLoginModule", "ScramLoginModule"} and {"username", "password"} <= set(
        login_options
    ):
        return {
            "sasl.username": login_options["username"],
            "sasl.password": login_options["password"],
        }
    if module == "OAuthBearerLoginModule" and {"clientId", "clientSecret"} <= set(login_options):
        login = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": login_options["clientId"],
            "sasl.oauthbearer.client.secret": login_options["clientSecret"],
        }
        return login | (
            {"sasl.oauthbearer.scope": login_options["scope"]} if "scope" in login_options else {}
        )
    raise UntranslatableOption(_JAAS, f"librdkafka cannot log in with {module} and {mechanism}")


def _trusted(options: Mapping[str, str]) -> dict[str, str]:
    """Return the certificates of authorities from a trust store. PKCS12 is converted to PEM."""
    option = "ssl.truststore.location"
    location = options.get(option)
    if location is None:
        return {}
    kind = options.get("ssl.truststore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.ca.location": location}
    if kind != "PKCS12":
        option = "ssl.truststore.type"
        raise _unreadable(option, kind)
    password = options.get("ssl.truststore.password")
    try:
        store = Path(location).read_bytes()
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415

        found = pkcs12.load_pkcs12(store, password.encode() if password else None)
    except (OSError, ValueError) as error:
        message = f"--kafka-option {option}: {location} cannot be read: {error}"
        raise InvalidKafkaOption(message) from error
    except ImportError as error:
        reason = "a PKCS12 trust store needs the package `cryptography`"
        raise UntranslatableOption(option, reason) from error
    certificates = (each.certificate for each in (found.cert, *found.additional_certs) if each)
    return {
        "ssl.ca.pem": "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)
    }


def _own_certificate(options: Mapping[str, str]) -> dict[str, str]:
    """Return the certificate and key of the client from a key store."""
    location = options.get("ssl.keystore.location")
    if location is None:
        return {}
    kind = options.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12":
        password = options.get("ssl.keystore.password", "")
        return {"ssl.keystore.location": location, "ssl.keystore.password": password}
    option = "ssl.keystore.type"
    raise _unreadable(option, kind)


def _unreadable(option: str, kind: str) -> UntranslatableOption:
    return UntranslatableOption(option, f"librdkafka cannot read a store of type {kind}")
