package resources

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	secretsAttribute     = "signing_secrets"
	secretsPath          = "/signing_secrets"
	signingOverlapMember = "expires_previous_after_seconds"
)

// signingSecrets are what requests are signed with. The secrets themselves are told once, in the
// answer that makes them, and are kept in the state.
func signingSecrets() *shape.Shape {
	made := shape.OfData(&contract.Node{
		Type:        contract.Types{Name: "array"},
		Items:       contract.Schema("NewSigningSecret"),
		Description: "The secrets that sign requests to the endpoint, the newest first.",
	}, shape.Options{
		"secret": {Sensitive: true, Also: "Null where it was not made by Terraform."},
	})
	made.Answered = false
	return made
}

// signingAttributes are the secrets, and what makes others.
func signingAttributes() map[string]*shape.Shape {
	overlap := contract.Schema("SigningSecretCreate").Properties[signingOverlapMember]
	fallback, _ := overlap.DefaultValue()
	seconds := shape.OfOwn(shape.Number, overlap.Description, fallback)
	seconds.Limits = overlap
	return map[string]*shape.Shape{
		secretsAttribute: signingSecrets(),
		versionAttribute: shape.OfOwn(shape.Text, "Any text of yours: another one makes another signing "+
			"secret of each kind. After an import it makes some that Terraform knows.", nil),
		overlapAttribute: seconds,
	}
}

// renewSigning makes others where another version is planned.
func renewSigning(ctx context.Context, call Call, answer *client.Answer) error {
	if !(secret{}).renewed(ctx, call) {
		return nil
	}
	var seconds types.Number
	call.Plan.GetAttribute(ctx, path.Root(overlapAttribute), &seconds)
	return makeSecrets(ctx, call, answer, json.Number(seconds.ValueBigFloat().String()))
}

// renewLostSigning: secrets that were in an answer that did not come are nobody's.
func renewLostSigning(ctx context.Context, call Call, answer *client.Answer, lost bool) error {
	if !lost {
		return nil
	}
	return makeSecrets(ctx, call, answer, "0")
}

// makeSecrets makes one of each kind that there is, and adds them to the answer.
func makeSecrets(ctx context.Context, call Call, answer *client.Answer, overlap json.Number) error {
	push, _ := answer.Body[pushAttribute].(map[string]any)
	kinds, _ := push["signing"].([]any)
	if len(kinds) == 0 {
		return nil
	}
	var all []any
	for _, kind := range kinds {
		made, err := call.Client.Do(ctx, client.Request{
			Method: http.MethodPost, Path: call.Path + secretsPath, Tenant: call.Tenant, Once: true,
			Body: map[string]any{"kind": kind, signingOverlapMember: overlap},
		})
		if err != nil {
			return err
		}
		all = append(all, made.Body)
	}
	now, err := call.Do(ctx, http.MethodGet, call.Path, nil)
	if err != nil {
		return err
	}
	*answer = now
	now.Body[pushAttribute].(map[string]any)[secretsAttribute] = all
	return nil
}

// planSecrets: they stay, unless the kinds of signatures change, or another version is planned.
func planSecrets(ctx context.Context, call Call, answer *resource.ModifyPlanResponse) {
	if call.Prior == nil || !signsAsBefore(ctx, call) || (secret{}).renewed(ctx, call) {
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
	if made := push[secretsAttribute]; call.Prior == nil && made != nil { // there are no others
		answer[secretsAttribute] = made
		return nil
	}
	listed, err := call.Do(ctx, http.MethodGet, call.Path+secretsPath, nil)
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
