"""Bytes of the user cache on a Redis server, shared by threads, processes and machines.

A change watches its key, reads, and writes with MULTI and EXEC: the server refuses the write when
somebody else was faster, and the change is made again from what is there now. A process that is
killed before EXEC leaves what was there before it.
"""

from collections.abc import Callable
from contextlib import contextmanager

from repro.errors import BadParameter, ReproError


class Unreachable(ReproError):
    """The server does not answer; what it holds is not known."""


class RedisStore:
    """The store at `url`, such as ``redis://127.0.0.1:6379/0``.

    wait: seconds for a connection and for each answer; it is not tried again. prefix: first part
    of every key, for several caches on one server. The server is first asked when it is needed.
    Raises BadParameter for a URL that is none, `Unreachable` where nobody answers, and ReproError
    for every other refusal of the server.
    """

    def __init__(self, url: str, wait: float = 2.0, prefix: str = "muser"):
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise ReproError("Redis needs the package `redis`: pip install redis.") from error
        self._redis, self._prefix = redis, prefix
        try:
            self._client = redis.Redis.from_url(
                url,
                socket_timeout=wait,
                socket_connect_timeout=wait,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise BadParameter(
                f"url is refused ({error}); accepted: redis://host:port/number, rediss:// or "
                "unix://."
            ) from error

    @contextmanager
    def _answers(self):
        try:
            yield
        except (self._redis.ConnectionError, self._redis.TimeoutError) as error:
            # The URL may hold a password, so only the place is named.
            at = self._client.connection_pool.connection_kwargs
            place = at.get("path") or f"{at.get('host')}:{at.get('port')}"
            raise Unreachable(f"Redis at {place} cannot be reached ({error}).") from error
        except self._redis.RedisError as error:
            raise ReproError(f"The user cache on Redis cannot be used ({error}).") from error

    def _key(self, kind: str, user: str, revision: str) -> str:
        """The lengths keep users and revisions with colons apart."""
        return f"{self._prefix}:{kind}:{len(user)}:{user}:{revision}"

    def load(self, kind: str, user: str, revision: str) -> bytes | None:
        """What is kept under this key; None where there is nothing."""
        with self._answers():
            return self._client.get(self._key(kind, user, revision))

    def change(
        self,
        kind: str,
        user: str,
        revision: str,
        step: Callable[[bytes | None], bytes | None],
        lasts: float | None = None,
    ) -> bool:
        """Replace the value by ``step(value)`` in one go; False where `step` returns None.

        `step` is called again when another client was faster. lasts: seconds after which the
        server forgets the value.
        """
        key = self._key(kind, user, revision)
        expiry = None if lasts is None else max(1, round(1_000 * lasts))
        while True:
            with self._answers(), self._client.pipeline() as pipe:
                pipe.watch(key)
                value = step(pipe.get(key))
                if value is None:
                    return False
                pipe.multi()
                pipe.set(key, value, px=expiry)
                if kind == "entry":
                    pipe.sadd(self._key("revisions", user, ""), revision)
                try:
                    pipe.execute()
                except self._redis.WatchError:
                    continue
                return True

    def revisions(self, user: str) -> set[str]:
        """The revisions that hold an entry of this user."""
        with self._answers():
            names = {
                name.decode() for name in self._client.smembers(self._key("revisions", user, ""))
            }
            return {name for name in names if self._client.exists(self._key("entry", user, name))}
