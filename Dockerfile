# The image runs what `make run` runs, from the same lock file:
#   docker build -t crmhub:0.1.0 .
#   docker run --rm crmhub:0.1.0 --help
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/crmhub
COPY Makefile pyproject.toml requirements.lock hatch_build.py mkdocs.yml README.md LICENSE ./
COPY docs docs
COPY tools tools
COPY crmhub crmhub
COPY adapters adapters
RUN make install

FROM python:3.13-slim
LABEL org.opencontainers.image.title=crmhub org.opencontainers.image.version=0.1.0
# pg_dump and psql are for `crmhub db backup` and `restore`; they must be as new as the server.
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home --home-dir /var/lib/crmhub crmhub
COPY --from=build /opt/crmhub /opt/crmhub
ENV PATH=/opt/crmhub/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CRMHUB_HOST=0.0.0.0
# Relative paths start here: config/ where one is mounted, var/ for SQLite and development's keys.
WORKDIR /var/lib/crmhub
USER crmhub
VOLUME /var/lib/crmhub
EXPOSE 8080
# SIGTERM lets the requests under way end, within 35 s.
STOPSIGNAL SIGTERM
ENTRYPOINT ["crmhub"]
CMD ["serve"]
