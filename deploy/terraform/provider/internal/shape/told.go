package shape

import (
	"encoding/json"
	"fmt"
	"strings"
)

// told is the text, with the values that there may be and the one that it has when it is left out.
func (s *Shape) told() string {
	parts := []string{s.Text}
	if values := s.values(); len(values) > 0 {
		parts = append(parts, "One of "+strings.Join(values, ", ")+".")
		if s.Kind == List || s.Kind == Set {
			parts[len(parts)-1] = "Any of " + strings.Join(values, ", ") + "."
		}
	}
	if value := defaultText(s.Default); s.HasDefault && value != "" {
		parts = append(parts, "Default: "+value+".")
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// values are those of the contract's enumeration, of what is in a list too.
func (s *Shape) values() []string {
	of := s
	if s.Element != nil && s.Kind != Map {
		of = s.Element
	}
	if of.Limits == nil {
		return nil
	}
	var values []string
	for _, value := range of.Limits.Enum {
		if text, ok := value.(string); ok {
			values = append(values, "`"+text+"`")
		}
	}
	return values
}

// defaultText is "" for what need not be said: nothing, and objects, whose members say theirs.
func defaultText(value any) string {
	switch value := value.(type) {
	case string:
		if value != "" {
			return "`" + value + "`"
		}
	case bool, json.Number, float64, int:
		return fmt.Sprintf("`%v`", value)
	case []any:
		var parts []string
		for _, one := range value {
			parts = append(parts, defaultText(one))
		}
		return strings.Join(parts, ", ")
	}
	return ""
}
