"""What the fakes of CRMs share: a CRM in memory that serves HTTP, for tests and for trying the hub.

A fake is as strict as its CRM: it has the CRM's ids, errors, limits and search lag, and refuses
unknown names and wrong types where the CRM does. `fake.Fake` is the base of a fake. It starts and
stops the server, records the calls, injects faults, counts calls under rate limits, and serves the
endpoints of `/_control`. A subclass says what its CRM does:

    class FakeAcme(Fake):
        settings = control.SETTINGS | control.TOKEN_SETTINGS

        def reset(self) -> None:
            with self.lock:
                super().reset()
                self.general = Window("general", *parse(self.options.limit))
                self.windows = {"limit": self.general}
                self.tokens = Tokens(static="secret", expires_in=600)
                self.contacts: dict[str, Record] = {}

        def costs(self, received: Received) -> list[tuple[Window, int]]:
            return [(self.general, 1)]

        def over(self, limit: Window | AtOnce, wait: float) -> Refused:
            headers = retry_header(wait, self.retry_after)
            return Refused(429, {"error": "too many calls"}, headers=headers)

        def admit(self, received: Received) -> None:
            if self.tokens.state(received.headers.get("X-Token", "")) != "valid":
                raise Refused(401, {"error": "no valid token"})

        def handle(self, received: Received) -> Answer:
            match received.method, received.path.split("/")[1:]:
                case "GET", ["contacts", id_] if id_ in self.contacts:
                    return Answer(200, self.contacts[id_].properties)
                case "POST", ["contacts"]:
                    return Answer(201, {"id": self._create(json.loads(received.body))})
            raise Refused(404, {"error": "no such address"})

        def error(self, status: int, fault: Fault) -> Answer:
            return Answer(status, {"error": f"status {status}"})

`tests/adapters/fakes/tiny_crm.py` is this fake, complete. The modules:

- `fake`: `Fake`, `Options` (a dataclass to extend), `Seen` (a recorded call)
- `server`: the HTTP server, and `Received` (a request: method, path, parameters, form, body)
- `answers`: `Answer` (a response) and `Refused` (a refusal, to raise or to extend)
- `records`: `Record`, whose search index lags behind writes
- `limits`: `Window` (calls or their costs in a period), `AtOnce` (calls at the same time), `parse`
- `tokens`: `Tokens` (access tokens with lifetimes, refresh tokens with or without rotation)
- `authorizing`: `Authorizations`, the OAuth page with its codes and PKCE
- `faults`: `Fault`, and which calls it strikes
- `control`: the endpoints of `/_control` and the settings that they change
- `records_page`: the page at `/`, on which a person reads the records
- `command`: the options and the serving loop of `crmhub fake NAME`, found by the entry point group
  `crmhub.fakes`

A call is processed in this order: an injected fault is chosen, the call is counted under its limits
(`costs`, `at_once`), the latency passes, then `admit`, the refusal over a limit, `handle`,
`decorate`, and at last the fault. The package knows neither the hub nor an adapter.
"""
