package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultFsync is the appendfsync setting of a redis-server that was not given another.
const DefaultFsync = "always"

// RedisOptions are the settings of one redis-server. The zero value is an append-only server that has every
// acknowledged write on disk.
type RedisOptions struct {
	// Fsync is the server's appendfsync: always, everysec or no. Defaults to always (DefaultFsync), with which a
	// kill loses nothing that was acknowledged.
	Fsync string
	// Cluster makes the server a cluster of one node, which serves keys once it was given slots. It needs Redis 7.
	Cluster bool
	// Sentinel makes the server a sentinel, with these lines as its configuration file, such as
	// "sentinel monitor bets 127.0.0.1 6379 1".
	Sentinel []string
	// Args are further settings in command-line form, such as "--maxmemory", "8mb". They come last and win.
	Args []string
}

// Redis is one redis-server process. Its methods may be called concurrently; Stop, Kill and Restart wait for each other.
type Redis struct {
	daemon  daemon
	address string
	version string
	client  *redis.Client
}

// LaunchRedis starts a redis-server on a free loopback port with a directory of its own, and returns once it answers
// PING. The caller must Close it. The error is a *MissingError when there is no redis-server here.
func LaunchRedis(ctx context.Context, options RedisOptions) (*Redis, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	return launch(func() (*Redis, error) { return launchRedis(ctx, binary, options) })
}

func launchRedis(ctx context.Context, binary string, options RedisOptions) (*Redis, error) {
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addresses[0])
	_, busPort, _ := net.SplitHostPort(addresses[1])
	dir, err := os.MkdirTemp("", "e2e-redis-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for redis-server: %w", err)
	}
	r := &Redis{
		address: addresses[0],
		client: redis.NewClient(&redis.Options{
			Addr: addresses[0],
			// Commands that older servers answer with an error, on every connection.
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			// A server that is down is down until the test restarts it: say so at once.
			MaxRetries:            -1,
			DialerRetries:         1,
			ContextTimeoutEnabled: true,
		}),
	}
	args := []string{
		"--port", port, "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", cmp.Or(options.Fsync, DefaultFsync),
	}
	if options.Cluster {
		// The bus would stand 10 000 ports above, where there may be none.
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", busPort, "--cluster-announce-ip", "127.0.0.1")
	}
	if len(options.Sentinel) > 0 {
		// A sentinel insists on a file, which it keeps up to date itself.
		file := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(strings.Join(options.Sentinel, "\n")+"\n"), 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("write the sentinel's configuration: %w", err), r.Close())
		}
		args = append(append([]string{file}, args...), "--sentinel")
	}
	r.daemon = daemon{
		name:   redisServer,
		binary: binary,
		args:   append(args, options.Args...),
		dir:    dir,
		ready:  r.ready,
	}
	if err := r.daemon.start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// ready checks that the server has loaded its data and is the process that was started.
func (r *Redis) ready(ctx context.Context, pid int) error {
	// The client logs a refused connection, so it is used only once there is none.
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", r.address)
	if err != nil {
		return err
	}
	if err := connection.Close(); err != nil {
		return fmt.Errorf("close a connection: %w", err)
	}
	if err := r.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	text, err := r.client.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("query its process id: %w", err)
	}
	facts := infoFields(text)
	if facts["process_id"] != strconv.Itoa(pid) {
		return fmt.Errorf("%s is served by process %s, not by %d", r.address, facts["process_id"], pid)
	}
	if r.version == "" {
		// Written by the first start only, so that Version needs no lock during a restart.
		r.version = facts["redis_version"]
	}
	return nil
}

// infoFields reads the lines `name:value` of an answer to INFO.
func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Addr returns the server's host:port, the same over restarts.
func (r *Redis) Addr() string { return r.address }

// Version returns the version that the running server reported, such as 7.0.15.
func (r *Redis) Version() string { return r.version }

// Client returns a client of the server that stays usable over restarts. It retries nothing: a command fails at once while
// the server is down, and the first one after a restart can fail on each connection that the old server left behind. It
// belongs to the server: Close closes it.
func (r *Redis) Client() *redis.Client { return r.client }

// Kill ends the server with SIGKILL and waits until it is gone. Its data stays as the crash left it.
func (r *Redis) Kill() error { return r.daemon.end(syscall.SIGKILL) }

// Restart starts the server again on the same port and data and returns once it has loaded them. A running one is
// stopped first.
func (r *Redis) Restart(ctx context.Context) error { return r.daemon.restart(ctx) }

// Freeze stops the server with SIGSTOP: its connections stay open, and nothing is answered until Thaw. A frozen server
// can be killed, but neither stopped nor restarted in time.
func (r *Redis) Freeze() error { return r.daemon.signal(syscall.SIGSTOP) }

// Thaw resumes a frozen server, which then serves what arrived meanwhile.
func (r *Redis) Thaw() error { return r.daemon.signal(syscall.SIGCONT) }

// Close kills the server, closes its client and removes its data.
func (r *Redis) Close() error { return errors.Join(r.client.Close(), r.daemon.close()) }
