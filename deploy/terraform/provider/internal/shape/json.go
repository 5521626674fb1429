package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// precision is that of Terraform's own numbers.
const precision = 512

// Body is the JSON that is sent for a value of a plan. What is null is left out, so that the
// server's default holds; what is unknown is left out as well.
func (s *Shape) Body(value tftypes.Value) any {
	if value.IsNull() || !value.IsKnown() {
		return nil
	}
	if s.isNothing(value) {
		return json.RawMessage("null")
	}
	switch s.Kind {
	case Bool:
		return taken[bool](value)
	case Integer, Number:
		var number *big.Float
		must(value.As(&number))
		return json.Number(written(number))
	case List, Set:
		items := []any{}
		for _, item := range taken[[]tftypes.Value](value) {
			items = append(items, s.Element.Body(item))
		}
		return items
	case Map:
		entries := map[string]any{}
		for name, entry := range taken[map[string]tftypes.Value](value) {
			entries[name] = s.Element.Body(entry)
		}
		return entries
	case Object:
		return s.members(value)
	case JSON:
		var any any
		if json.Unmarshal([]byte(taken[string](value)), &any) != nil {
			return taken[string](value) // the server says what is wrong with it
		}
		return json.RawMessage(taken[string](value))
	}
	return taken[string](value)
}

// written without an exponent where it is whole: 1e+06 is no integer to all who read JSON.
func written(number *big.Float) string {
	if number.IsInt() {
		return number.Text('f', 0)
	}
	return number.Text('g', -1)
}

func (s *Shape) members(value tftypes.Value) map[string]any {
	members := map[string]any{}
	given := taken[map[string]tftypes.Value](value)
	for name, member := range s.Members {
		if body := member.Body(given[name]); member.Sent && body != nil {
			members[name] = body
		}
	}
	return members
}

// State is the value that stands for the JSON of an answer. `prior` is what there was: what is no
// member of answers is taken from it, and so is what is written differently and means the same.
func (s *Shape) State(answer any, prior tftypes.Value) (tftypes.Value, error) {
	kind := s.Type()
	if answer == nil {
		answer = s.Nothing
	}
	if answer == nil {
		return tftypes.NewValue(kind, nil), nil
	}
	switch s.Kind {
	case Text:
		return s.text(answer, prior)
	case Bool:
		return checked(kind, answer)
	case Integer, Number:
		return number(answer)
	case List, Set:
		return s.list(answer)
	case Map:
		return s.table(answer, prior)
	case Object:
		return s.object(answer, prior)
	}
	return jsonText(answer, prior)
}

func (s *Shape) text(answer any, prior tftypes.Value) (tftypes.Value, error) {
	said, _ := answer.(string)
	if text, ok := stringIn(prior); ok && s.same(text, said) {
		return prior, nil
	}
	return checked(tftypes.String, answer)
}

// same: the two texts mean the same, if written differently.
func (s *Shape) same(one, other string) bool {
	return (s.Kind == JSON || s.Plain) && SameJSON(one, other) || s.Time && sameTime(one, other)
}

// isNothing: it is what says null.
func (s *Shape) isNothing(value tftypes.Value) bool {
	if s.Nothing == nil || !known(value) {
		return false
	}
	nothing, err := s.State(s.Nothing, tftypes.Value{})
	return err == nil && nothing.Equal(value)
}

func (s *Shape) list(answer any) (tftypes.Value, error) {
	items, ok := answer.([]any)
	if !ok {
		return tftypes.Value{}, unfit(s.Type(), answer)
	}
	values := make([]tftypes.Value, 0, len(items))
	for _, item := range items {
		value, err := s.Element.State(item, tftypes.Value{})
		if err != nil {
			return tftypes.Value{}, err
		}
		values = append(values, value)
	}
	return checked(s.Type(), values)
}

// named gives what is answered by name, and what was there before.
func (s *Shape) named(answer any, prior tftypes.Value) (map[string]any, map[string]tftypes.Value, error) {
	entries, ok := answer.(map[string]any)
	if !ok {
		return nil, nil, unfit(s.Type(), answer)
	}
	before := map[string]tftypes.Value{}
	if known(prior) {
		before = taken[map[string]tftypes.Value](prior)
	}
	return entries, before, nil
}

func (s *Shape) table(answer any, prior tftypes.Value) (tftypes.Value, error) {
	entries, before, err := s.named(answer, prior)
	if err != nil {
		return tftypes.Value{}, err
	}
	values := map[string]tftypes.Value{}
	for name, entry := range entries {
		if value, ok := before[name]; ok && s.Masked != "" && entry == s.Masked {
			values[name] = value
			continue
		}
		value, err := s.Element.State(entry, tftypes.Value{})
		if err != nil {
			return tftypes.Value{}, err
		}
		values[name] = value
	}
	return checked(s.Type(), values)
}

func (s *Shape) object(answer any, prior tftypes.Value) (tftypes.Value, error) {
	members, before, err := s.named(answer, prior)
	if err != nil {
		return tftypes.Value{}, err
	}
	values := map[string]tftypes.Value{}
	for name, member := range s.Members {
		value, err := member.kept(members[name], before[name])
		if err != nil {
			return tftypes.Value{}, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = value
	}
	return checked(s.Type(), values)
}

// kept: what no answer says stays as it was, unless it is unknown still.
func (s *Shape) kept(answer any, before tftypes.Value) (tftypes.Value, error) {
	switch {
	case s.WriteOnly:
		return tftypes.NewValue(s.Type(), nil), nil
	case s.Answered || answer != nil:
		return s.State(answer, before)
	case known(before):
		return before, nil
	case s.HasDefault:
		return s.State(s.Default, before)
	}
	return tftypes.NewValue(s.Type(), nil), nil
}

func number(answer any) (tftypes.Value, error) {
	text, ok := answer.(json.Number)
	if !ok {
		return tftypes.Value{}, unfit(tftypes.Number, answer)
	}
	value, _, err := big.ParseFloat(text.String(), 10, precision, big.ToNearestEven)
	if err != nil {
		return tftypes.Value{}, err
	}
	return tftypes.NewValue(tftypes.Number, value), nil
}

func jsonText(answer any, prior tftypes.Value) (tftypes.Value, error) {
	text, err := json.Marshal(answer)
	if err != nil {
		return tftypes.Value{}, err
	}
	if before, ok := stringIn(prior); ok && SameJSON(before, string(text)) {
		return prior, nil
	}
	return tftypes.NewValue(tftypes.String, string(text)), nil
}

// SameText: they are equal, or the same JSON.
func SameText(one, other string) bool { return one == other || SameJSON(one, other) }

// SameJSON compares what two texts mean; false where one is no JSON.
func SameJSON(one, other string) bool {
	first, second := canonical(one), canonical(other)
	return first != nil && bytes.Equal(first, second)
}

func canonical(text string) []byte {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	written, _ := json.Marshal(value) // members in order
	return written
}

func sameTime(one, other string) bool {
	first, wrong := time.Parse(time.RFC3339Nano, one)
	second, bad := time.Parse(time.RFC3339Nano, other)
	return wrong == nil && bad == nil && first.Equal(second)
}

func known(value tftypes.Value) bool {
	return value.Type() != nil && value.IsKnown() && !value.IsNull()
}

func stringIn(value tftypes.Value) (string, bool) {
	if !known(value) || !value.Type().Is(tftypes.String) {
		return "", false
	}
	return taken[string](value), true
}

// checked makes a value of JSON whose type nobody has looked at yet.
func checked(kind tftypes.Type, value any) (tftypes.Value, error) {
	if err := tftypes.ValidateValue(kind, value); err != nil {
		return tftypes.Value{}, fmt.Errorf("the answer does not fit the contract: %w", err)
	}
	return tftypes.NewValue(kind, value), nil
}

func unfit(kind tftypes.Type, answer any) error {
	return fmt.Errorf("the answer does not fit the contract: %s is wanted, not %T", kind, answer)
}

func taken[T any](value tftypes.Value) T {
	var target T
	must(value.As(&target))
	return target
}

// must: the framework has checked the types of plans and states.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
