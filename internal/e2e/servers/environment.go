package servers

import (
	"os"
	"slices"
	"strings"
)

// cleanEnvironment is the environment of this process without what restate-server would read as configuration:
// every variable that starts with RESTATE_, RESTATE_VERSION among them.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "RESTATE_")
	})
}
