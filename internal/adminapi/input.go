package adminapi

import "strings"

// AcceptsJSON reports whether a handler with this input_description accepts a body of application/json. A description that
// it does not understand counts as accepting.
func AcceptsJSON(description string) bool {
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

// InputNone is the description of a handler that accepts neither a body nor a Content-Type.
const InputNone = "none"
