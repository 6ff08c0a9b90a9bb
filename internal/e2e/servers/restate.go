package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// lightConfig is a restate-server configuration for a small machine: about 140 MiB of memory, ready in half a second.
// The pool of the data service must stay above the 32 MiB request limit: a body larger than the pool is never answered
// and blocks every later send.
const lightConfig = `default-num-partitions = 1
rocksdb-total-memory-size = "64 MiB"
default-thread-pool-size = 2
log-filter = "warn,restate=info"
shutdown-timeout = "5s"
[worker]
data-service-memory-limit = "64 MiB"
[worker.invoker]
memory-limit = "256 MiB"
[admin]
disable-web-ui = true
[admin.query-engine]
memory-size = "128 MiB"
[bifrost]
record-cache-memory-size = "16 MiB"
`

// RestateOptions are the settings of one restate-server. The zero value is a light single node with one partition and
// Restate's own retention.
type RestateOptions struct {
	// Env are further settings in Restate's own form, such as "RESTATE_INGRESS__REQUEST_SIZE_LIMIT=1 KiB". They win
	// over those of this package.
	Env []string
}

// Restate is one restate-server process. Its methods may be called concurrently; Terminate, Kill and Restart wait for each
// other.
type Restate struct {
	daemon  daemon
	ingress string
	admin   string
	cluster string
	version string
	client  *http.Client
}

// LaunchRestate starts a restate-server on free loopback ports with a directory of its own, and returns once ingress
// and admin answer their health checks. The first send may still wait for the partition's leader. The caller must Close
// the server. The error is a *MissingError when there is no restate-server here.
func LaunchRestate(ctx context.Context, options RestateOptions) (*Restate, error) {
	binary, err := restateBinary()
	if err != nil {
		return nil, err
	}
	return launch(func() (*Restate, error) { return launchRestate(ctx, binary, options) })
}

func launchRestate(ctx context.Context, binary string, options RestateOptions) (*Restate, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "e2e-restate-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for restate-server: %w", err)
	}
	r := &Restate{
		ingress: "http://" + addresses[0],
		admin:   "http://" + addresses[1],
		cluster: filepath.Base(dir),
		// A transport of its own: its idle connections are closed with the server.
		client: &http.Client{Transport: &http.Transport{}, Timeout: adminTimeout},
	}
	config := filepath.Join(dir, "restate.toml")
	if err := os.WriteFile(config, []byte(lightConfig), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write restate-server's configuration: %w", err), os.RemoveAll(dir))
	}
	r.daemon = daemon{
		name:   restateServer,
		binary: binary,
		env: append([]string{
			"RESTATE_CONFIG=" + config,
			"RESTATE_BASE_DIR=" + filepath.Join(dir, "data"),
			"RESTATE_NODE_NAME=n1",
			"RESTATE_CLUSTER_NAME=" + r.cluster,
			"RESTATE_BIND_IP=127.0.0.1",
			"RESTATE_INGRESS__BIND_ADDRESS=" + addresses[0],
			"RESTATE_ADMIN__BIND_ADDRESS=" + addresses[1],
			"RESTATE_BIND_ADDRESS=" + addresses[2],
			// Unix sockets below the data directory would need a path shorter than a temporary one may be.
			"RESTATE_LISTEN_MODE=tcp",
			// What it spills to disk goes with the rest.
			"TMPDIR=" + dir,
			"RESTATE_DISABLE_TELEMETRY=true",
			"RESTATE_LOG_DISABLE_ANSI_CODES=true",
		}, options.Env...),
		dir:   dir,
		ready: r.ready,
	}
	if err := r.daemon.start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// ready checks that both ports answer and that the cluster's name is the one given to this server: another restate-server
// could have taken its port, and the server does not report its process id.
func (r *Restate) ready(ctx context.Context, _ int) error {
	if err := r.call(ctx, http.MethodGet, r.admin+"/health", nil, nil); err != nil {
		return fmt.Errorf("admin health: %w", err)
	}
	if err := r.call(ctx, http.MethodGet, r.ingress+"/restate/health", nil, nil); err != nil {
		return fmt.Errorf("ingress health: %w", err)
	}
	var cluster struct {
		Name string `json:"cluster_name"`
	}
	if err := r.call(ctx, http.MethodGet, r.admin+"/cluster-health", nil, &cluster); err != nil {
		return fmt.Errorf("query its cluster: %w", err)
	}
	if cluster.Name != r.cluster {
		return fmt.Errorf("%s is served by cluster %q, not by %q", r.admin, cluster.Name, r.cluster)
	}
	var reported struct {
		Version string `json:"version"`
	}
	if err := r.call(ctx, http.MethodGet, r.admin+"/version", nil, &reported); err != nil {
		return fmt.Errorf("query its version: %w", err)
	}
	if r.version == "" {
		// Written by the first start only, so that Version needs no lock during a restart.
		r.version = reported.Version
	}
	return nil
}

// Ingress returns the URL that workflows are started at, without a final slash. It stays the same over restarts.
func (r *Restate) Ingress() string { return r.ingress }

// Admin returns the URL of the admin API, without a final slash. It stays the same over restarts.
func (r *Restate) Admin() string { return r.admin }

// Version returns the version that the running server reported, such as 1.7.12.
func (r *Restate) Version() string { return r.version }

// Terminate ends the server with SIGTERM and waits until it is gone: it closes its listeners at once, lets requests in
// flight finish for 5 s, and exits. One that takes longer than 20 s is killed, which is an error. Terminating a server
// that is not running does nothing.
func (r *Restate) Terminate() error { return r.daemon.end(syscall.SIGTERM) }

// Kill ends the server with SIGKILL and waits until it is gone. Its data stays as the crash left it.
func (r *Restate) Kill() error { return r.daemon.end(syscall.SIGKILL) }

// Restart starts the server again on the same ports and data and returns once both health checks answer. A running one
// is terminated first. Further settings, in the form of RestateOptions.Env, last until the next restart.
func (r *Restate) Restart(ctx context.Context, env ...string) error {
	return r.daemon.restart(ctx, env...)
}

// Freeze stops the server with SIGSTOP, as [Redis.Freeze] does.
func (r *Restate) Freeze() error { return r.daemon.signal(syscall.SIGSTOP) }

// Thaw resumes a frozen server.
func (r *Restate) Thaw() error { return r.daemon.signal(syscall.SIGCONT) }

// Close kills the server and removes its data.
func (r *Restate) Close() error {
	err := r.daemon.close()
	r.client.CloseIdleConnections()
	return err
}
