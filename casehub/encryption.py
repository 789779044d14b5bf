"""Encryption: facts of which the log, events, snapshots, exports and commands have what nobody can read without a key.

    keys = KeyRing({"2026-11": os.environ["CASEHUB_KEY"]})
    hub = CaseHub(claim, serializers=[Encryption(keys, "diagnosis", Passport)])

AES-256-GCM. The authenticated data are tenant, case and fact, so what is encrypted can be read in its place alone. The
nonce is an HMAC of these and of the value: an equal value in the same place gives the same text, which is how a value
that is written again is no change. That two differing values get one nonce is as improbable as with random nonces.

To rotate, put a new key behind the old ones: it encrypts from then on, and the old ones read what they have encrypted,
for as long as a log has it. Nothing is encrypted anew, as a log is never changed; a value that is written again and is
equal stays as it is. A case whose key is missing is parked, and goes on when the key is back.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic_core import from_json, to_json

from casehub.errors import FactError, MissingExtraError, SettingsError
from casehub.plain import Plain
from casehub.serialized import FactSerializer, Slot
from casehub.values import without_none

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError:
    raise MissingExtraError("casehub.encryption needs the extra \"crypto\": pip install 'casehub[crypto]'") from None

KEY: Final = 32
"""Bytes of a key."""
NONCE: Final = 12


def new_key() -> str:
    """A new key, as text for a secret store: 32 random bytes in base64."""
    return base64.b64encode(secrets.token_bytes(KEY)).decode()


class KeyRing:
    """Keys by their ids, the newest last: that one encrypts. A key is 32 bytes, or their base64.

    Raises `SettingsError` for a ring without keys and for what is no key.
    """

    def __init__(self, keys: Mapping[str, bytes | str]) -> None:
        if not keys:
            raise SettingsError("a key ring has no keys; give it one by its id, made with casehub.encryption.new_key()")
        self._ciphers = {id: _Cipher(id, key) for id, key in keys.items()}
        self.current = next(reversed(self._ciphers))

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._ciphers)})"

    def encrypted(self, text: bytes, place: bytes) -> Plain:
        """What is stored of a text in its place."""
        return {"key": self.current, "box": base64.b64encode(self._ciphers[self.current].close(text, place)).decode()}

    def decrypted(self, form: Plain, place: bytes, fact: str) -> bytes:
        """The text again. Raises `FactError`: its key is missing, it is of another place, or somebody has changed it."""
        if not isinstance(form, dict) or form.keys() != {"key", "box"} or not isinstance(form["box"], str):
            raise FactError(f"fact {fact!r}: what is stored is not what an encryption makes")
        cipher = self._ciphers.get(form["key"]) if isinstance(form["key"], str) else None
        if cipher is None:
            raise FactError(
                f"fact {fact!r} is encrypted with key {form['key']!r:.80}, which the key ring lacks (it has "
                f"{', '.join(self._ciphers)}); bring it back"
            )
        try:
            return cipher.open(base64.b64decode(form["box"], validate=True), place)
        except (InvalidTag, ValueError):
            raise FactError(
                f"fact {fact!r} cannot be decrypted with key {form['key']!r}: it was encrypted for another fact, case or "
                "tenant, somebody has changed it, or another key has this id"
            ) from None


class _Cipher:
    """One key, of which two are derived: for the cipher and for nonces."""

    def __init__(self, id: str, key: bytes | str) -> None:
        try:
            raw = base64.b64decode(key, validate=True) if isinstance(key, str) else key
        except ValueError:
            raw = b""
        if len(raw) != KEY:
            raise SettingsError(f"key {id!r} is none: give {KEY} bytes, or their base64, as new_key() makes them")
        self._cipher = AESGCM(hmac.digest(raw, b"casehub facts 1: cipher", hashlib.sha256))
        self._nonces = hmac.digest(raw, b"casehub facts 1: nonces", hashlib.sha256)

    def close(self, text: bytes, place: bytes) -> bytes:
        nonce = hmac.digest(self._nonces, len(place).to_bytes(8, "big") + place + text, hashlib.sha256)[:NONCE]
        return nonce + self._cipher.encrypt(nonce, text, place)

    def open(self, box: bytes, place: bytes) -> bytes:
        return self._cipher.decrypt(box[:NONCE], box[NONCE:], place)


class Encryption(FactSerializer):
    """Encrypts facts, given by name or by type; a type stands for those that derive from it. `name`: in the log."""

    secret: ClassVar[bool] = True

    def __init__(self, keys: KeyRing, *what: str | type, name: str = "encrypted") -> None:
        self.name = name
        self._keys = keys
        self._facts = {each for each in what if isinstance(each, str)}
        self._types = tuple(each for each in what if isinstance(each, type))

    def handles(self, fact: str, annotation: Any) -> bool:
        kind = without_none(annotation)
        return fact in self._facts or (isinstance(kind, type) and issubclass(kind, self._types))

    def dump(self, value: Any, slot: Slot) -> Plain:
        return self._keys.encrypted(to_json(slot.plain(value)), _place(slot))

    def load(self, form: Plain, slot: Slot) -> Any:
        return slot.read(from_json(self._keys.decrypted(form, _place(slot), slot.fact)))


def _place(slot: Slot) -> bytes:
    return to_json([slot.tenant, slot.case, slot.fact])
