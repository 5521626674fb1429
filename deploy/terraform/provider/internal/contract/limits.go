package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Broken is one limit that a value does not keep.
type Broken struct {
	// At is where below the value: member names and indices.
	At   []any
	Text string
}

// Unknown stands for a value that is not known yet; nothing is said of it.
type Unknown struct{}

// Check holds a JSON value to the schema's limits: as decoded with json.Number, and Unknown in it.
// Null passes: whether it may be left out is said elsewhere. Types are not checked either.
func (n *Node) Check(value any) []Broken {
	node := n.Resolved()
	if node == nil {
		return nil
	}
	var broken []Broken
	switch value := value.(type) {
	case string:
		broken = says(node.brokenByText(value))
	case json.Number:
		broken = says(node.brokenByNumber(value))
	case []any:
		broken = says(node.brokenByCount(len(value), node.MinItems, node.MaxItems, "items"))
		for at, item := range value {
			broken = append(broken, below(at, node.Items.Check(item))...)
		}
	case map[string]any:
		broken = node.brokenByMembers(value)
	}
	return append(broken, says(node.brokenByEnum(value))...)
}

func (n *Node) brokenByText(text string) string {
	length := utf8.RuneCountInString(text)
	switch {
	case n.MaxLength != nil && length > *n.MaxLength:
		return fmt.Sprintf("at most %d characters; it has %d", *n.MaxLength, length)
	case n.MinLength != nil && length < *n.MinLength:
		return fmt.Sprintf("at least %d characters; it has %d", *n.MinLength, length)
	case n.Pattern != "" && !n.Expression().MatchString(text):
		return fmt.Sprintf("has to match %s", n.Pattern)
	case n.Format == "date-time" && !isTime(text):
		return "has to be a time with its offset from UTC: 2026-01-31T12:00:00Z"
	}
	return ""
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text))
	return err == nil
}

// Expression is the pattern, of ECMAScript's dialect, in Go's.
func (n *Node) Expression() *regexp.Regexp {
	escaped := regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)
	return regexp.MustCompile(escaped.ReplaceAllString(n.Pattern, `\x{$1}`))
}

func (n *Node) brokenByNumber(number json.Number) string {
	value, ok := new(big.Rat).SetString(number.String())
	if !ok {
		return "has to be a number"
	}
	switch {
	case n.Minimum != nil && value.Cmp(rational(*n.Minimum)) < 0:
		return fmt.Sprintf("at least %s; it is %s", *n.Minimum, number)
	case n.Maximum != nil && value.Cmp(rational(*n.Maximum)) > 0:
		return fmt.Sprintf("at most %s; it is %s", *n.Maximum, number)
	case n.Above != nil && value.Cmp(rational(*n.Above)) <= 0:
		return fmt.Sprintf("more than %s; it is %s", *n.Above, number)
	case n.Below != nil && value.Cmp(rational(*n.Below)) >= 0:
		return fmt.Sprintf("less than %s; it is %s", *n.Below, number)
	}
	return ""
}

func rational(number json.Number) *big.Rat {
	value, _ := new(big.Rat).SetString(number.String())
	return value
}

func (n *Node) brokenByCount(count int, least, most *int, what string) string {
	switch {
	case most != nil && count > *most:
		return fmt.Sprintf("at most %d %s; there are %d", *most, what, count)
	case least != nil && count < *least:
		return fmt.Sprintf("at least %d %s; there are %d", *least, what, count)
	}
	return ""
}

// Count holds the number of an object's members to the limits; "" where it keeps them.
func (n *Node) Count(members int) string {
	return n.brokenByCount(members, n.MinMembers, n.MaxMembers, "entries")
}

func (n *Node) brokenByMembers(members map[string]any) []Broken {
	broken := says(n.Count(len(members)))
	values := n.Values()
	for name, value := range members {
		if property, ok := n.Properties[name]; ok {
			broken = append(broken, below(name, property.Check(value))...)
			continue
		}
		if n.Names != nil {
			for _, one := range n.Names.Check(name) {
				broken = append(broken, Broken{At: []any{name}, Text: "its name: " + one.Text})
			}
		}
		broken = append(broken, below(name, values.Check(value))...)
	}
	return broken
}

func (n *Node) brokenByEnum(value any) string {
	if len(n.Enum) == 0 {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		return ""
	}
	var allowed []string
	for _, one := range n.Enum {
		if one == text {
			return ""
		}
		if name, ok := one.(string); ok {
			allowed = append(allowed, name)
		}
	}
	return fmt.Sprintf("one of %s; it is %q", strings.Join(allowed, ", "), text)
}

func says(text string) []Broken {
	if text == "" {
		return nil
	}
	return []Broken{{Text: text}}
}

func below(at any, broken []Broken) []Broken {
	for i := range broken {
		broken[i].At = append([]any{at}, broken[i].At...)
	}
	return broken
}

func decoded(text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		panic(fmt.Sprintf("the contract has a default that is no JSON: %s", text))
	}
	return value
}
