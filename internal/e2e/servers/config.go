package servers

import (
	"fmt"
	"strings"
	"time"
)

// lightConfig is a restate-server configuration for a small machine: about 140 MiB of memory, ready in half a second.
// The pool of the data service must stay above the 32 MiB request limit: a body larger than the pool is never answered
// and blocks every later send. cleanup is left to the server when it is 0.
func lightConfig(cleanup time.Duration) string {
	var text strings.Builder
	text.WriteString(`default-num-partitions = 1
rocksdb-total-memory-size = "64 MiB"
default-thread-pool-size = 2
log-filter = "warn,restate=info"
shutdown-timeout = "5s"
[worker]
data-service-memory-limit = "64 MiB"
`)
	if cleanup > 0 {
		fmt.Fprintf(&text, "cleanup-interval = \"%dms\"\n", max(1, cleanup.Milliseconds()))
	}
	text.WriteString(`[worker.invoker]
memory-limit = "256 MiB"
[admin]
disable-web-ui = true
[admin.query-engine]
memory-size = "128 MiB"
[bifrost]
record-cache-memory-size = "16 MiB"
`)
	return text.String()
}
