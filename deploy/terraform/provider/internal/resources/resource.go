package resources

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

// etagKey is where private state has the version that Terraform saw last: a change is made to that
// one only, so what somebody else did between plan and apply is not overwritten unseen.
const etagKey = "etag"

// thing is a resource of any kind.
type thing struct {
	kind   Kind
	shape  *shape.Shape
	client *client.Client
}

var (
	_ resource.ResourceWithConfigure   = (*thing)(nil)
	_ resource.ResourceWithModifyPlan  = (*thing)(nil)
	_ resource.ResourceWithImportState = (*thing)(nil)
)

// Resource makes the resource of a kind, for each time that Terraform wants one.
func (k Kind) Resource() func() resource.Resource {
	made := k.shape()
	return func() resource.Resource { return &thing{kind: k, shape: made} }
}

func (t *thing) Metadata(
	_ context.Context, request resource.MetadataRequest, answer *resource.MetadataResponse,
) {
	answer.TypeName = request.ProviderTypeName + "_" + t.kind.Name
}

func (t *thing) Schema(_ context.Context, _ resource.SchemaRequest, answer *resource.SchemaResponse) {
	answer.Schema = schema.Schema{Description: t.kind.Text, Attributes: t.shape.Attributes()}
}

// Configure is called without a client while the provider's own configuration is being checked.
func (t *thing) Configure(
	_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse,
) {
	t.client, _ = request.ProviderData.(*client.Client)
}

// ModifyPlan says in which tenant it will be, and lets the kind look at the plan.
func (t *thing) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
) {
	if t.client == nil {
		return
	}
	if !request.Plan.Raw.IsNull() && !t.kind.AboveTenants {
		t.planTenant(ctx, request, answer)
	}
	if t.shape.Unchanged(answer.Plan.Raw, request.State.Raw) {
		answer.Plan.Raw = request.State.Raw
	}
	if t.kind.Plan == nil || answer.Diagnostics.HasError() {
		return
	}
	call := Call{Client: t.client}
	if !request.State.Raw.IsNull() {
		call = t.call(request.State.Raw)
		call.Prior = &request.State
	}
	if !request.Plan.Raw.IsNull() {
		call.Plan, call.Config = &answer.Plan, &request.Config
	}
	t.kind.Plan(ctx, call, request, answer)
}

func (t *thing) planTenant(
	ctx context.Context, request resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
) {
	configured := member(request.Config.Raw, tenantAttribute)
	if !configured.IsNull() || member(request.Plan.Raw, tenantAttribute).IsKnown() {
		return
	}
	tenant, err := t.client.TenantOf(ctx, "")
	if err != nil {
		answer.Diagnostics.AddAttributeError(path.Root(tenantAttribute), "No tenant", err.Error())
		return
	}
	answer.Diagnostics.Append(answer.Plan.SetAttribute(ctx, path.Root(tenantAttribute), tenant)...)
}

func (t *thing) Create(
	ctx context.Context, request resource.CreateRequest, answer *resource.CreateResponse,
) {
	call := t.call(request.Plan.Raw)
	call.Plan, call.Config = &request.Plan, &request.Config
	made, lost, err := t.create(ctx, call, request)
	if err != nil {
		answer.Diagnostics.Append(diagnosticsOf(t.says("was not made", call), err, t.shape)...)
		return
	}
	if t.kind.Made != nil {
		err = t.kind.Made(ctx, call, &made, lost)
	}
	if err != nil { // it is there, and Terraform has to know of it
		answer.Diagnostics.Append(diagnosticsOf(t.says("was made, but not all of it", call), err, t.shape)...)
	}
	raw, err := t.state(ctx, call, made, request.Plan.Raw)
	if err != nil {
		answer.Diagnostics.AddError(t.says("cannot be read", call), err.Error())
		return
	}
	answer.State.Raw = raw
	answer.Diagnostics.Append(answer.Private.SetKey(ctx, etagKey, private(made.ETag))...)
}

// create makes it, and never changes one that was there already.
func (t *thing) create(
	ctx context.Context, call Call, request resource.CreateRequest,
) (made client.Answer, lost bool, err error) {
	body, err := t.body(ctx, call, false)
	if err != nil {
		return made, false, err
	}
	if t.kind.Reset != nil {
		made, err = t.put(ctx, call, body, "")
		return made, false, err
	}
	body[t.kind.id()] = call.Name
	where := t.kind.Collection
	if t.kind.MadeAt != nil {
		where = t.kind.MadeAt(body)
	}
	post := client.Request{Method: http.MethodPost, Path: where, Tenant: call.Tenant, Body: body}
	made, err = t.client.Do(ctx, post)
	if !client.IsThere(err) {
		return made, false, err
	}
	if made.Doubtful { // an earlier try made it
		made, err = t.get(ctx, call)
		return made, true, err
	}
	return made, false, fmt.Errorf("there is one already. To have Terraform look after it: "+
		"terraform import packetboat_%s.NAME %s", t.kind.Name, t.importID(call))
}

func (t *thing) Read(
	ctx context.Context, request resource.ReadRequest, answer *resource.ReadResponse,
) {
	if t.client == nil { // the provider's configuration is not known yet: so the state stays
		return
	}
	call := t.call(request.State.Raw)
	call.Prior = &request.State
	found, err := t.get(ctx, call)
	if client.IsMissing(err) || err == nil && t.kind.Gone != nil && t.kind.Gone(found.Body) {
		answer.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		answer.Diagnostics.Append(diagnosticsOf(t.says("cannot be read", call), err, t.shape)...)
		return
	}
	raw, err := t.state(ctx, call, found, request.State.Raw)
	if err != nil {
		answer.Diagnostics.AddError(t.says("cannot be read", call), err.Error())
		return
	}
	answer.State.Raw = raw
	answer.Diagnostics.Append(answer.Private.SetKey(ctx, etagKey, private(found.ETag))...)
}

func (t *thing) Update(
	ctx context.Context, request resource.UpdateRequest, answer *resource.UpdateResponse,
) {
	call := t.call(request.State.Raw)
	call.Prior, call.Plan, call.Config = &request.State, &request.Plan, &request.Config
	etag, found := request.Private.GetKey(ctx, etagKey)
	answer.Diagnostics.Append(found...)
	changed, err := t.update(ctx, call, string(etag))
	if err == nil && t.kind.Changed != nil {
		err = t.kind.Changed(ctx, call, &changed)
	}
	if err != nil {
		answer.Diagnostics.Append(diagnosticsOf(t.says("was not changed", call), err, t.shape)...)
		return
	}
	raw, err := t.state(ctx, call, changed, request.Plan.Raw)
	if err != nil {
		answer.Diagnostics.AddError(t.says("cannot be read", call), err.Error())
		return
	}
	answer.State.Raw = raw
	answer.Diagnostics.Append(answer.Private.SetKey(ctx, etagKey, private(changed.ETag))...)
}

func (t *thing) update(ctx context.Context, call Call, etag string) (client.Answer, error) {
	body, err := t.body(ctx, call, true)
	if err != nil {
		return client.Answer{}, err
	}
	changed, err := t.put(ctx, call, body, etag)
	if !client.IsRefused(err, "precondition-failed") {
		return changed, err
	}
	if changed.Doubtful { // an earlier try may have been what changed it
		if found, failed := t.get(ctx, call); failed == nil && t.asPlanned(ctx, call, found) {
			return found, nil
		}
	}
	return changed, fmt.Errorf("it was changed by somebody else since the plan was made; plan again: %w", err)
}

func (t *thing) asPlanned(ctx context.Context, call Call, found client.Answer) bool {
	found.Body = maps.Clone(found.Body) // hooks change it
	there, err := t.state(ctx, call, found, call.Plan.Raw)
	return err == nil && t.shape.Unchanged(call.Plan.Raw, there)
}

func (t *thing) get(ctx context.Context, call Call) (client.Answer, error) {
	return t.client.Do(ctx, client.Request{Method: http.MethodGet, Path: call.Path, Tenant: call.Tenant})
}

// put says what it is as a whole, which may be said twice.
func (t *thing) put(
	ctx context.Context, call Call, body map[string]any, etag string,
) (client.Answer, error) {
	if t.kind.Save != nil {
		return t.kind.Save(ctx, call, body, etag)
	}
	query, err := t.forced(ctx, call, false)
	if err != nil {
		return client.Answer{}, err
	}
	return t.client.Do(ctx, client.Request{
		Method: http.MethodPut, Path: call.Path + query, Tenant: call.Tenant, Body: body, IfMatch: etag,
	})
}

func (t *thing) Delete(
	ctx context.Context, request resource.DeleteRequest, answer *resource.DeleteResponse,
) {
	call := t.call(request.State.Raw)
	call.Prior = &request.State
	if err := t.remove(ctx, call); err != nil && !client.IsMissing(err) {
		answer.Diagnostics.Append(diagnosticsOf(t.says("was not destroyed", call), err, t.shape)...)
	}
}

func (t *thing) remove(ctx context.Context, call Call) error {
	if t.kind.Reset != nil {
		_, err := t.put(ctx, call, t.kind.Reset(), "")
		return err
	}
	query, err := t.forced(ctx, call, true)
	if err != nil {
		return err
	}
	gone, err := t.client.Do(ctx, client.Request{
		Method: http.MethodDelete, Path: call.Path + query, Tenant: call.Tenant,
	})
	if err == nil && gone.Status == http.StatusAccepted {
		return t.client.WaitUntilGone(ctx, call.Tenant, call.Path)
	}
	if client.IsRefused(err, "backlog-not-empty") { // came after the plan
		return fmt.Errorf("%v %s", err, advice(false, false))
	}
	return err
}

// forced is the query that says force=true, where that is meant.
func (t *thing) forced(ctx context.Context, call Call, destroy bool) (string, error) {
	force := false
	if t.kind.ForceOwner {
		identity, err := t.client.Identity(ctx)
		if err != nil {
			return "", err
		}
		force = identity.Operator
	}
	if t.kind.Forced && destroy {
		given := member(call.Prior.Raw, forceAttribute)
		force = given.IsKnown() && !given.IsNull() && given.Equal(tftypes.NewValue(tftypes.Bool, true))
	}
	if !force {
		return "", nil
	}
	return "?" + url.Values{"force": {"true"}}.Encode(), nil
}

// ImportState takes `NAME`, or `TENANT/NAME`.
func (t *thing) ImportState(
	ctx context.Context, request resource.ImportStateRequest, answer *resource.ImportStateResponse,
) {
	tenant, name, named := strings.Cut(request.ID, "/")
	if !named {
		tenant, name = "", request.ID
	}
	answer.Diagnostics.Append(answer.State.SetAttribute(ctx, path.Root(t.kind.id()), name)...)
	if t.kind.AboveTenants {
		return
	}
	tenant, err := t.client.TenantOf(ctx, tenant)
	if err != nil {
		answer.Diagnostics.AddError("No tenant", err.Error()+", or import TENANT/NAME")
		return
	}
	answer.Diagnostics.Append(answer.State.SetAttribute(ctx, path.Root(tenantAttribute), tenant)...)
}

func (t *thing) importID(call Call) string {
	if t.kind.AboveTenants {
		return call.Name
	}
	return call.Tenant + "/" + call.Name
}

// call reads which one is meant from a plan or a state.
func (t *thing) call(raw tftypes.Value) Call {
	name := textOf(raw, t.kind.id())
	call := Call{Client: t.client, Name: name, Path: t.kind.at(name)}
	if !t.kind.AboveTenants {
		call.Tenant = textOf(raw, tenantAttribute)
	}
	return call
}

func (t *thing) body(ctx context.Context, call Call, update bool) (map[string]any, error) {
	planned := t.shape.WithWriteOnly(call.Plan.Raw, call.Config.Raw)
	body := t.shape.Body(planned).(map[string]any)
	if t.kind.Sending != nil {
		return body, t.kind.Sending(ctx, call, body, update)
	}
	return body, nil
}

func (t *thing) state(
	ctx context.Context, call Call, answer client.Answer, prior tftypes.Value,
) (tftypes.Value, error) {
	if t.kind.Received != nil {
		t.kind.Received(answer.Body)
	}
	if t.kind.Completed != nil {
		if err := t.kind.Completed(ctx, call, answer.Body); err != nil {
			return tftypes.Value{}, err
		}
	}
	return t.shape.State(answer.Body, prior)
}

func (t *thing) says(what string, call Call) string {
	return fmt.Sprintf("The %s %q %s", strings.ReplaceAll(t.kind.Name, "_", " "), call.Name, what)
}

func member(object tftypes.Value, name string) tftypes.Value {
	var members map[string]tftypes.Value
	if object.IsNull() || object.As(&members) != nil {
		return tftypes.NewValue(tftypes.String, nil)
	}
	return members[name]
}

func textOf(object tftypes.Value, name string) string {
	value := member(object, name)
	var text string
	if value.IsKnown() && !value.IsNull() && value.As(&text) == nil {
		return text
	}
	return ""
}

// private is an ETag as private state wants it: JSON, which a quoted one is.
func private(etag string) []byte {
	if etag == "" {
		return []byte(`""`)
	}
	return []byte(etag)
}
