package resources

import (
	"context"
	"errors"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	definitionAttribute    = "definition"
	compatibilityAttribute = "compatibility"
)

// Schema has versions: another definition is one more.
func Schema() Kind {
	return Kind{
		Name: "schema", Collection: "/schemas", Body: "SchemaCreate", Answer: "Schema",
		Text: "The schema of the bodies of a topic's messages. Another definition is another version, held " +
			"to `compatibility`; versions stay until the schema is destroyed.",
		Options: shape.Options{
			typeAttribute: {Replace: true, Also: "It cannot change."},
			definitionAttribute: {JSON: true, Instead: "JSON, as jsonencode() or a file has it. May not " +
				"refer to other documents."},
		},
		Plan: planSchema, Save: saveSchema,
	}
}

// planSchema asks the server whether the definition could be the next version.
func planSchema(
	ctx context.Context, call Call, _ resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
) {
	if call.Prior == nil || call.Plan == nil {
		return
	}
	definition, changed := changedText(ctx, call, definitionAttribute)
	if !changed || definition.IsUnknown() {
		return
	}
	// Held to the compatibility that there is, so that of another one nothing can be said yet.
	if _, other := changedText(ctx, call, compatibilityAttribute); other {
		return
	}
	checked, err := call.Do(ctx, http.MethodPost, call.Path+":check", definitionBody(definition))
	var problem *client.Problem
	switch {
	case err == nil && checked.Body["compatible"] == false:
		for _, one := range listIn(checked.Body, "errors") {
			answer.Diagnostics.AddAttributeError(path.Root(definitionAttribute), "Not compatible",
				"As a new version of the schema it breaks what was promised ("+
					textIn(checked.Body, compatibilityAttribute)+"): "+textIn(one, "field")+" "+textIn(one, "detail"))
		}
	case errors.As(err, &problem) && problem.Status == http.StatusUnprocessableEntity:
		answer.Diagnostics.AddAttributeError(path.Root(definitionAttribute), "Not a definition", problem.Error())
	}
}

// changedText is what is planned, and whether it is another than there was.
func changedText(ctx context.Context, call Call, name string) (types.String, bool) {
	var before, planned types.String
	call.Prior.GetAttribute(ctx, path.Root(name), &before)
	call.Plan.GetAttribute(ctx, path.Root(name), &planned)
	return planned, !planned.Equal(before)
}

func definitionBody(definition types.String) map[string]any {
	return map[string]any{definitionAttribute: definition.ValueString()}
}

// saveSchema: the new definition is held to the new compatibility, so that comes first.
func saveSchema(ctx context.Context, call Call, _ map[string]any, ifMatch string) (client.Answer, error) {
	compatibility, other := changedText(ctx, call, compatibilityAttribute)
	if other {
		_, err := call.Client.Do(ctx, client.Request{
			Method: http.MethodPatch, Path: call.Path, Tenant: call.Tenant, IfMatch: ifMatch,
			Body: map[string]any{compatibilityAttribute: compatibility.ValueString()},
		})
		if err != nil {
			return client.Answer{}, err
		}
	}
	if definition, other := changedText(ctx, call, definitionAttribute); other {
		_, err := call.Do(ctx, http.MethodPost, call.Path+"/versions", definitionBody(definition))
		if err != nil {
			return client.Answer{}, err
		}
	}
	return call.Do(ctx, http.MethodGet, call.Path, nil)
}
