"""What the fakes of CRMs share: a CRM in memory that serves HTTP, for tests and for trying the hub.

A fake is as strict as its CRM: it has the CRM's ids, errors, limits and search lag, and refuses
unknown names and wrong types where the CRM does. `fake.Fake` is the base of a fake. It holds the
records, checks what is written, starts and stops the server, records the calls, injects faults,
counts calls under rate limits, and serves the endpoints of `/_control`. A subclass says what its
CRM does:

    class FakeAcme(Fake):
        kinds = {"contacts": "people"}
        fields = {"people": {"name": Field(required=True), "email": Field(unique=True)}}

        def admit(self, received: Received) -> None:
            if received.headers.get("X-Token") != "secret":
                raise Refused(401, {"message": "no valid token"})

        def handle(self, received: Received) -> Answer:
            match received.method, received.parts:
                case "GET", ["people", id_]:
                    return Answer(200, self.load("people", id_).properties)
                case "POST", ["people"]:
                    return Answer(201, {"id": self.create("people", received.json).id})
            raise Refused(404, {"message": "no such address"})

The skeleton of `crmhub adapter new` has such a fake of 110 lines in `tests/fake_acme.py`;
`tests/adapters/fakes/tiny_crm.py` is one with rate limits, OAuth and a command. The modules:

- `fake`: `Fake`, `Options` (a dataclass to extend), `Seen` (a recorded call)
- `fields`: `Field`, and the checks of values
- `store`: `Store`, the records of a CRM by kind and id
- `records`: `Record`, whose search index lags behind writes
- `answers`: `Answer` (a response) and `Refused` (a refusal, to raise or to extend)
- `server`: the HTTP server, and `Received` (a request: method, path, parameters, form, body)
- `kit`: a fake as the conformance tests read and change it
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
