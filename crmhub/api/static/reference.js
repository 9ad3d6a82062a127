"use strict";

const element = document.getElementById("reference");
SwaggerUIBundle({
  url: element.dataset.document,
  domNode: element,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  filter: true,
  // By default Swagger UI sends the document to a validator on another host.
  validatorUrl: null,
});
