// Uses the client that openapi-generator makes with its generator typescript-fetch.
import {
  ChatbotApi, Configuration, ContactsApi, FilterOperator, FunctionsApi, ResponseError, SortField,
  SortOrder, instanceOfContactAnswer, type ListedContact, type ModelError,
} from "./crmhub/index";

const setting = (name: string): string => process.env[name] ?? "";
const configuration = new Configuration({
  basePath: setting("CRMHUB_URL"),
  apiKey: (name) => (name === "service-apikey" ? setting("CRMHUB_KEY") : ""),
});
const clientId = setting("CRMHUB_CLIENT_ID");

async function api(): Promise<void> {
  const contacts = new ContactsApi(configuration);
  const contactInput = { properties: { email: "ada@example.com", firstname: "Ada" } };
  const created = await contacts.createContact({ clientId, contactInput });
  console.log("created", created.id > 0, created.properties["email"]);
  try {
    await contacts.createContact({ clientId, contactInput });
  } catch (refused) {
    if (!(refused instanceof ResponseError)) throw refused;
    const error: ModelError = await refused.response.json();
    console.log("refused", refused.response.status, error.category);
  }
  const inputs = ["grace", "mary", "joan"].map((name) => (
    { properties: { email: `${name}@example.com`, firstname: name } }
  ));
  const records = <T>(batch: T[] | { results: T[] }) => (
    Array.isArray(batch) ? batch : batch.results
  );
  const batch = await contacts.createBatchOfContacts({ clientId, contactBatchCreate: { inputs } });
  console.log("batch", records(batch).length);
  const upserted = await contacts.upsertBatchOfContacts({
    clientId,
    contactBatchUpsert: { inputs: [
      { idProperty: "email", id: "ada@example.com", properties: { jobtitle: "Programmer" } },
      { idProperty: "email", id: "emmy@example.com", properties: { firstname: "Emmy" } },
    ] },
  });
  console.log("upserted", records(upserted).map((contact) => contact._new).join(" "));
  const walked: ListedContact[] = [];
  let cursor = "";
  do {
    const first = { limit: 2, sort: SortField.CreatedAt, order: SortOrder.Asc };
    const page = await contacts.listContacts({ clientId, ...(cursor ? { cursor } : first) });
    walked.push(...page.results);
    cursor = page.cursor.next;
  } while (cursor);
  console.log("walked", walked.length, new Set(walked.map((contact) => contact.id)).size);
  const found = await contacts.searchContacts({
    clientId, limit: 1, sort: SortField.CreatedAt, order: SortOrder.Desc,
    contactSearch: {
      filters: [{ propertyName: "email", operator: FilterOperator.ContainsToken, value: "example" }],
    },
  });
  console.log("found", found.total, found.results[0]?.properties["firstname"]);
}

async function helpers(): Promise<void> {
  const chatbot = new ChatbotApi(configuration);
  const functions = new FunctionsApi(configuration);
  const generatedId = setting("CRMHUB_GENERATED_ID");
  const portalId = setting("CRMHUB_PORTAL_ID");
  const contactToken = "chat-17";
  const person = { name: "Katherine Johnson", email: "kj@example.com", phone: "+1 202-555-0188" };
  const lead = await chatbot.createLead({ generatedId, leadInput: { contactToken, ...person } });
  if (!instanceOfContactAnswer(lead)) throw new Error("not flat");
  const { contactId } = lead;
  const answers = [
    lead,
    await chatbot.setPropertiesOfAccount({
      generatedId, setPropertiesInput: { contactToken, props: { city: "Hampton" } },
    }),
    await chatbot.getPropertiesOfAccount({
      generatedId, getPropertiesInput: { contactToken, props: ["city"] },
    }),
    await chatbot.getType({
      generatedId,
      getTypeInput: { contactnumber: person.phone, interval: 48, lastChatInterval: 0 },
    }),
    await functions.getRandomInt({ randomIntInput: { min: 1, max: 3 } }),
    await functions.createDealForContact({
      portalId, newForContactInput: { contactId, properties: { dealname: "A first order" } },
    }),
    await functions.createTicketForContact({
      portalId, newForContactInput: { contactId, properties: { subject: "A question" } },
    }),
  ];
  for (const answer of answers) if ("status" in answer) console.log("helper", answer.status);
}

// An error ends the program with code 1.
void api().then(helpers);
