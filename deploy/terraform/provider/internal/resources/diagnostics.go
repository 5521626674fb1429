package resources

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

var step = regexp.MustCompile(`[^.\[\]]+|\[[0-9]+\]`)

// diagnosticsOf has one error for each field that a problem names, at the attribute that is meant;
// one for anything else.
func diagnosticsOf(what string, err error, shapes *shape.Shape) diag.Diagnostics {
	var problem *client.Problem
	if !errors.As(err, &problem) || len(problem.Errors) == 0 {
		return diag.Diagnostics{diag.NewErrorDiagnostic(what, err.Error())}
	}
	var found diag.Diagnostics
	for _, field := range problem.Errors {
		detail := problem.Error() + "\n" + field.Field + ": " + field.Detail
		if at, ok := attributeOf(field.Field, shapes); ok {
			found = append(found, diag.NewAttributeErrorDiagnostic(at, what, detail))
		} else {
			found = append(found, diag.NewErrorDiagnostic(what, detail))
		}
	}
	return found
}

// attributeOf follows `push.headers` or `members[3]` as far as there are attributes.
func attributeOf(field string, within *shape.Shape) (path.Path, bool) {
	at := path.Empty()
	for _, part := range step.FindAllString(field, -1) {
		switch within.Kind {
		case shape.Object:
			member := within.Members[part]
			if member == nil {
				return at, len(at.Steps()) > 0
			}
			at, within = at.AtName(part), member
		case shape.Map:
			at, within = at.AtMapKey(part), within.Element
		case shape.List:
			index, err := strconv.Atoi(strings.Trim(part, "[]"))
			if err != nil {
				return at, true
			}
			at, within = at.AtListIndex(index), within.Element
		default: // elements of a set have no index
			return at, len(at.Steps()) > 0
		}
	}
	return at, len(at.Steps()) > 0
}
