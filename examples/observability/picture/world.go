package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/restatetest"
)

// scrapeInterval is shorter than usual, so that a picture of minutes has enough points.
const scrapeInterval = 5 * time.Second

// world is everything that runs.
type world struct {
	ctx        context.Context // of what is started
	dir        string
	redis      *servers.Redis
	ingress    *restatetest.Server
	prometheus string // its base URL
	processes  []*exec.Cmd
	open       chan struct{} // closed once messages are published
}

func startWorld(ctx context.Context, alerts string) (w *world, err error) {
	w = &world{ctx: ctx, open: make(chan struct{})}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "picture-"); err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	if w.redis, err = servers.LaunchRedis(ctx, servers.RedisOptions{Fsync: "everysec"}); err != nil {
		return nil, err
	}
	if err := w.redis.Client().HSet(ctx, "m:{"+topic+"}", "v", 1, "partitions", partitions).Err(); err != nil {
		return nil, fmt.Errorf("write the topic's meta hash: %w", err)
	}
	if w.ingress, err = restatetest.Listen("127.0.0.1:0", restatetest.WithWorkflow("BonusPayout")); err != nil {
		return nil, err
	}
	service, err := w.startService()
	if err != nil {
		return nil, err
	}
	return w, w.startPrometheus(service, alerts)
}

// startService builds the example and starts it. It returns where it is scraped.
func (w *world) startService() (string, error) {
	binary := filepath.Join(w.dir, "service")
	build := exec.CommandContext(w.ctx, "go", "build", "-o", binary, ".")
	build.Dir = ".."
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, output)
	}
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	return address, w.start(binary, []string{
		"REDIS_ADDR=" + w.redis.Addr(), "RESTATE_INGRESS=" + w.ingress.URL(), "HTTP_ADDR=" + address, "HOLD_MAX=5s",
	})
}

func (w *world) startPrometheus(service, alerts string) error {
	rules, err := filepath.Abs(alerts)
	if err != nil {
		return fmt.Errorf("find the rules: %w", err)
	}
	config := fmt.Sprintf(`global: {scrape_interval: %s, evaluation_interval: %s}
rule_files: [%q]
scrape_configs:
  - job_name: bonus-payout
    static_configs: [{targets: [%q]}]
`, scrapeInterval, scrapeInterval, rules, service)
	file := filepath.Join(w.dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return fmt.Errorf("configure prometheus: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	w.prometheus = "http://" + address
	return w.start("prometheus", nil, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(w.dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
}

// start starts a process that gets a SIGTERM when the world ends.
func (w *world) start(binary string, environment []string, args ...string) error {
	process := exec.Command(binary, args...) //nolint:noctx // closed by close, after what needs it
	process.Env = append(os.Environ(), environment...)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", binary, err)
	}
	w.processes = append(w.processes, process)
	return nil
}

func (w *world) close() {
	for _, process := range w.processes {
		var ended *exec.ExitError
		err := process.Process.Signal(syscall.SIGTERM)
		if waited := process.Wait(); !errors.As(waited, &ended) {
			err = errors.Join(err, waited)
		}
		if err != nil {
			log.Printf("end %s: %v", process.Path, err)
		}
	}
	if w.ingress != nil {
		w.ingress.Close()
	}
	if w.redis != nil {
		if err := w.redis.Close(); err != nil {
			log.Printf("end redis: %v", err)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		log.Print(err)
	}
}

// freeAddress is one that nobody listens on at the moment.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
