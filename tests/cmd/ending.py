# SPDX-License-Identifier: Apache-2.0
"""ending.py DIRECTORY AUTHORITY URI HOST BEGIN END: a certificate (cert.pem, key.pem, ca.pem) that has begun BEGIN seconds from now, which is negative, and ends END seconds from now: what `stratus
cert` does not make. Without AUTHORITY ("-") an authority: ca.pem, ca.key."""
import datetime, ipaddress, os, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

out, ca, uri, host, begin, end = sys.argv[1:]
now = datetime.datetime.utcnow().replace(microsecond=0)
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, out)])
issuer, signer = name, key
if ca != "-":
    issuer = x509.load_pem_x509_certificate(open(f"{ca}/ca.pem", "rb").read()).subject
    signer = serialization.load_pem_private_key(open(f"{ca}/ca.key", "rb").read(), None)
made = x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number(), now + datetime.timedelta(seconds=int(begin)),
                               now + datetime.timedelta(seconds=int(end)))
made = made.add_extension(x509.BasicConstraints(ca == "-", None), True)
if ca != "-":
    names = [x509.UniformResourceIdentifier(uri)] + ([x509.IPAddress(ipaddress.ip_address(host))] if host else [])
    made = made.add_extension(x509.SubjectAlternativeName(names), False)
os.makedirs(out, exist_ok=True)
for file, text in (
    ("cert.pem" if ca != "-" else "ca.pem", made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)),
    ("key.pem" if ca != "-" else "ca.key", key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())),
    *([("ca.pem", open(f"{ca}/ca.pem", "rb").read())] if ca != "-" else []),
):
    with open(f"{out}/.new", "wb") as f:  # as a whole: who looks in between reads the one before
        f.write(text)
    os.rename(f"{out}/.new", f"{out}/{file}")
