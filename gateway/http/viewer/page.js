"use strict";

// A token that is entered here stays in this page's memory and is sent to this server alone.
window.viewer = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#viewer",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: false,
  presets: [SwaggerUIBundle.presets.apis],
  queryConfigEnabled: false,
  validatorUrl: null,
});
