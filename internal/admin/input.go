package admin

import "strings"

// TakesJSON tells whether a handler whose input is described so takes a body of application/json. A description that is not
// understood counts as one that does.
func TakesJSON(description string) bool {
	rules := []string{description}
	if list, found := strings.CutPrefix(description, "one of ["); found {
		rules = strings.Split(strings.TrimSuffix(list, "]"), ", ")
	}
	for _, rule := range rules {
		rule = strings.Trim(rule, `"`)
		mainType, _, isType := strings.Cut(rule, "/")
		switch {
		case rule == "none":
		case isType && mainType != "*" && rule != "application/*" && rule != "application/json" && !strings.Contains(rule, "JSON"):
		default:
			return true
		}
	}
	return false
}

// InputNone describes the input of a handler that takes nothing: neither a body nor a Content-Type.
const InputNone = "none"
