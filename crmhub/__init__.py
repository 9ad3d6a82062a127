"""crmhub: the hub between chatbots and integrators on one side and CRMs on the other."""

__version__ = "0.1.0"
