"""The chat builders that use each notation of `placeholders.FORMS`, with the page that says so."""

from __future__ import annotations

from typing import NamedTuple


class Builder(NamedTuple):
    name: str
    forms: tuple[str, ...]
    source: str


BUILDERS: tuple[Builder, ...] = (
    Builder("ActiveCampaign", ("%x%",), "activecampaign.design/docs/patterns/personalization"),
    Builder("Blip", ("{{x}}",), "help.blip.ai/hc/en-us/articles/4474417686039-Builder-variables"),
    Builder(
        "Bot Framework Composer",
        ("${x}",),
        "learn.microsoft.com/en-us/azure/bot-service/bot-builder-concept-language-generation",
    ),
    Builder("BotCentral", ("{$x}",), "docs.botcentral.ai/variables"),
    Builder("Botnation", ("{{x}}",), "botnation.ai/support/en/all-about-variables"),
    Builder("Botpress", ("{{x}}", "@x"), "botpress.com/academy-lesson/studio-ui-variables"),
    Builder("ChatBot", ("{{x}}",), "gist.github.com/dzabrzenski/9a7201f23dd1651baf0edd786fd1079f"),
    Builder("Chatfuel", ("{{x}}",), "docs.chatfuel.com/en/articles/735122-json-api"),
    Builder("ChatLab", ("##x##",), "chatlab.com/help/human-support-contact-form"),
    Builder("Chatwoot", ("{{x}}",), "github.com/chatwoot/utils, src/canned.ts"),
    Builder(
        "Dialogflow CX",
        ("$contact.x",),
        "cloud.google.com/dialogflow/cx/docs/concept/parameter",
    ),
    Builder(
        "Dialogflow ES",
        ("#x.y", "$x", "$x.y"),
        "cloud.google.com/dialogflow/docs/intents-actions-parameters",
    ),
    Builder("eBot365", ("{x}",), "ebot365.com/docs/general-knowledge-base"),
    Builder(
        "Flowise",
        ("{{x}}", "$contact.x"),
        "mintlify.com/yocxy2/Flowise/building/variables-expressions",
    ),
    Builder("KAON", ("$contact.x",), "kaon.app/blog/documentation-1/dynamic-variables-6"),
    Builder(
        "Klaviyo, Customer.io, HubSpot, Mailchimp, Salesforce",
        ("{{x}}", "*|x|*", "{!x}", "%%x%%"),
        "cf-newsletrix.pages.dev/blog/newsletter-personalisation-token-guide.html",
    ),
    Builder(
        "Kommo",
        ("{{x}}", "[x]"),
        "developers.kommo.com/reference/salesbot-widget-block-execution-confirmation",
    ),
    Builder("Kore.ai", ("{{x}}",), "community.kore.ai/t/256"),
    Builder(
        "Landbot",
        ("@{x}", "¿·@x·?", "@x"),
        "help.landbot.io/article/nhg13a1hp0-webhook-block-for-advanced-users",
    ),
    Builder("Live Helper Chat", ("{x}",), "github.com/orgs/LiveHelperChat/discussions/1827"),
    Builder("ManyChat", ("{{x}}",), "support.manychat.com, Dev Tools Basics"),
    Builder(
        "MessengerPeople",
        ("$x$",),
        "helpcenter.messengerpeople.com/docs/chatbot/features/special-expressions",
    ),
    Builder("Pylon", ("{{x}}",), "docs.usepylon.com/pylon-docs, Template variables"),
    Builder("Respond.io", ("$contact.x",), "respond.io/help/dynamic-variables/dynamic-variables"),
    Builder("SendPulse", ("{{x}}",), "sendpulse.com/knowledge-base/chatbot/sendpulse-api"),
    Builder("Smartloop", ("%7B%7Bx%7D%7D",), "github.com/SmartloopAI/smartloop-feedback/issues/4"),
    Builder("SnatchBot", ("[showVar=x]",), "support.snatchbot.me/docs/connections"),
    Builder("Suvvy", ("{x}",), "docs.suvvy.ai/en/main-settings/prompts/prompts-1"),
    Builder("Typebot", ("{{x}}",), "docs.typebot.io/editor/blocks/integrations/webhook"),
    Builder("Umbler Talk", ("{{x}}",), "help.umbler.com/hc/pt-br/articles/33960785105421"),
    Builder("Voiceflow", ("{x}",), "docs.voiceflow.com/documentation/build/data/variables"),
    Builder(
        "WATI",
        ("{{x}}", "@x"),
        "support.wati.io/en/articles/11463025-advance-chatbot-builder-using-webhook-node",
    ),
    Builder(
        "watsonx Assistant",
        ("<? $x ?>", "$x"),
        "cloud.ibm.com/docs/watson-assistant?topic=watson-assistant-dialog-runtime-context",
    ),
    Builder("Webex Connect", ("${x}",), "help.webexconnect.io/docs/responses"),
    Builder(
        "Weni",
        ("@x", "@contact.x", "@(x)"),
        "help.vtex.com/docs/tutorials/expressions-and-variables-introduction",
    ),
    Builder("Xenioo", ("{{x}}",), "docs.xenioo.com/actions-and-operations/dynamic-parsing"),
    Builder("Zapier", ("{{x}}",), "zapier.com/developer/documentation/v2/variable-syntax"),
)
