package resources

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const secretsAttribute = "signing_secrets"

// signingSecrets are what requests are signed with. The secrets themselves are told once, in the
// answer that makes them, and are kept in the state.
func signingSecrets() *shape.Shape {
	made := shape.OfData(&contract.Node{
		Type:        contract.Types{Name: "array"},
		Items:       contract.Schema("NewSigningSecret"),
		Description: "What requests to the endpoint are signed with, the newest first.",
	}, shape.Options{
		"id":         {Text: "What it is called where secrets are listed."},
		"created_at": {Text: "When it was made."},
		"expires_at": {Text: "When it ends to sign; null: not yet."},
		"secret": {Sensitive: true, Text: "`whsec_…`, of v1, for receivers. Null where it was not made by " +
			"Terraform; of v1a they need the public key alone."},
	})
	made.Answered = false
	return made
}

// planSecrets: they stay, unless the kinds of signatures change.
func planSecrets(ctx context.Context, call Call, answer *resource.ModifyPlanResponse) {
	if call.Prior == nil || !signsAsBefore(ctx, call) {
		return
	}
	var before types.List
	call.Prior.GetAttribute(ctx, path.Root(secretsAttribute), &before)
	answer.Diagnostics.Append(answer.Plan.SetAttribute(ctx, path.Root(secretsAttribute), before)...)
}

func signsAsBefore(ctx context.Context, call Call) bool {
	var before, planned types.Object
	call.Prior.GetAttribute(ctx, path.Root(pushAttribute), &before)
	call.Plan.GetAttribute(ctx, path.Root(pushAttribute), &planned)
	if planned.IsUnknown() || before.IsNull() != planned.IsNull() {
		return false
	}
	return planned.IsNull() || planned.Attributes()["signing"].Equal(before.Attributes()["signing"])
}

// completeSecrets asks which there are, and takes the secrets from the answer that made them or
// from the state. What is planned as it was stays so: the next read tells more.
func completeSecrets(ctx context.Context, call Call, answer map[string]any) error {
	if call.Plan != nil {
		var planned types.List
		call.Plan.GetAttribute(ctx, path.Root(secretsAttribute), &planned)
		if !planned.IsUnknown() {
			return nil
		}
	}
	push, _ := answer[pushAttribute].(map[string]any)
	if push == nil {
		answer[secretsAttribute] = []any{}
		return nil
	}
	if call.Prior == nil && push[secretsAttribute] != nil { // all of them were made just now
		answer[secretsAttribute] = push[secretsAttribute]
		return nil
	}
	listed, err := call.Do(ctx, http.MethodGet, call.Path+"/signing_secrets", nil)
	if err != nil {
		return err
	}
	known := secretsInState(ctx, call)
	for _, one := range listIn(push, secretsAttribute) {
		known[textIn(one, "id")] = textIn(one, "secret")
	}
	all := []any{}
	for _, one := range listIn(listed.Body, secretsAttribute) {
		if secret := known[textIn(one, "id")]; secret != "" {
			one["secret"] = secret
		}
		all = append(all, one)
	}
	answer[secretsAttribute] = all
	return nil
}

func secretsInState(ctx context.Context, call Call) map[string]string {
	known := map[string]string{}
	if call.Prior == nil {
		return known
	}
	var before types.List
	call.Prior.GetAttribute(ctx, path.Root(secretsAttribute), &before)
	for _, element := range before.Elements() {
		members := element.(types.Object).Attributes()
		id, _ := members["id"].(types.String)
		secret, _ := members["secret"].(types.String)
		known[id.ValueString()] = secret.ValueString()
	}
	return known
}
