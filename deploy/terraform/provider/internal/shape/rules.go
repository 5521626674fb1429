package shape

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// limits holds what is configured to the contract, before anything is sent.
type limits struct{ shape *Shape }

func (l limits) Description(context.Context) string         { return "fits the HTTP contract" }
func (l limits) MarkdownDescription(context.Context) string { return "fits the HTTP contract" }

func (l limits) check(ctx context.Context, at path.Path, value attr.Value) diag.Diagnostics {
	var found diag.Diagnostics
	raw, err := value.ToTerraformValue(ctx)
	if err != nil {
		found.AddAttributeError(at, "Unreadable value", err.Error())
		return found
	}
	if l.shape.isNothing(raw) {
		return found
	}
	if text, ok := stringIn(raw); ok && l.shape.Kind == JSON && !json.Valid([]byte(text)) {
		found.AddAttributeError(at, "No JSON", fmt.Sprintf("%s: has to be JSON; jsonencode() writes it.", at))
		return found
	}
	body := l.shape.Body(raw)
	for _, broken := range l.shape.Limits.Check(body) {
		if len(broken.At) > 0 && l.shape.Element.Kind == Object {
			continue // the attributes of the items have rules of their own
		}
		where, what := below(at, broken.At), ""
		if l.shape.Kind == Set && len(broken.At) > 0 { // elements have no index there
			where, what = at, fmt.Sprintf("%q: ", body.([]any)[broken.At[0].(int)])
		}
		found.AddAttributeError(where, "Value outside its limits",
			fmt.Sprintf("%s: %s%s.", where, what, broken.Text))
	}
	return found
}

func below(at path.Path, steps []any) path.Path {
	for _, step := range steps {
		switch step := step.(type) {
		case int:
			at = at.AtListIndex(step)
		case string:
			at = at.AtMapKey(step)
		}
	}
	return at
}

func (l limits) ValidateString(ctx context.Context, q validator.StringRequest, a *validator.StringResponse) {
	a.Diagnostics.Append(l.check(ctx, q.Path, q.ConfigValue)...)
}

func (l limits) ValidateInt64(ctx context.Context, q validator.Int64Request, a *validator.Int64Response) {
	a.Diagnostics.Append(l.check(ctx, q.Path, q.ConfigValue)...)
}

func (l limits) ValidateNumber(ctx context.Context, q validator.NumberRequest, a *validator.NumberResponse) {
	a.Diagnostics.Append(l.check(ctx, q.Path, q.ConfigValue)...)
}

func (l limits) ValidateList(ctx context.Context, q validator.ListRequest, a *validator.ListResponse) {
	a.Diagnostics.Append(l.check(ctx, q.Path, q.ConfigValue)...)
}

func (l limits) ValidateSet(ctx context.Context, q validator.SetRequest, a *validator.SetResponse) {
	a.Diagnostics.Append(l.check(ctx, q.Path, q.ConfigValue)...)
}

// ValidateObject looks at how many members there are; they have rules of their own.
func (l limits) ValidateObject(_ context.Context, q validator.ObjectRequest, a *validator.ObjectResponse) {
	members, given := q.ConfigValue.Attributes(), 0
	if q.ConfigValue.IsNull() || q.ConfigValue.IsUnknown() {
		return
	}
	for _, member := range members {
		if member.IsUnknown() {
			return
		}
		if !member.IsNull() {
			given++
		}
	}
	if text := l.shape.Limits.Count(given); text != "" {
		a.Diagnostics.AddAttributeError(q.Path, "Value outside its limits", fmt.Sprintf("%s: %s.", q.Path, text))
	}
}

func (l limits) ValidateMap(ctx context.Context, q validator.MapRequest, a *validator.MapResponse) {
	a.Diagnostics.Append(l.check(ctx, q.Path, q.ConfigValue)...)
}
