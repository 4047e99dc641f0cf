"""A self-signed certificate for servers of tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(
    common_name: str, address: x509.GeneralName, days: float = 1
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a key and its certificate for ``address``, which is valid for ``days`` days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
    )
    return key, builder.sign(key, hashes.SHA256())


def write_certificate(
    directory: Path, days: int = 1, *, host: str = "localhost", common_name: str = "localhost"
) -> tuple[Path, Path]:
    """Write a new certificate of ``host`` and its key as ``cert.pem`` and ``key.pem``."""
    key, made = self_signed(common_name, x509.DNSName(host), days)
    certificate, key_file = directory / "cert.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, key_file
