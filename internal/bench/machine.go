package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// describe says what is measured, on what, and how.
func (b *bench) describe(ctx context.Context) []string {
	head := []string{
		fmt.Sprintf("%s, %d cores, %s/%s; load %s before the run", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, load()),
		strings.Join(append([]string{runtime.Version(), servers.Versions(ctx)}, libraries()...), ", "),
		fmt.Sprintf("%s; %d rounds of each contender in turn after one that warms up, scale %g", time.Now().UTC().Format(time.DateOnly), b.rounds, b.scale),
	}
	if b.profile != "" {
		head = append(head, "profiles were written, which slows `ours`: figures are not to be compared")
	}
	return head
}

// processor is the model's name, where the system says.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// load is how many processes wanted a core in the last minute: a busy machine measures itself.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// libraries are the versions of what the contenders are made of.
func libraries() []string {
	info, found := debug.ReadBuildInfo()
	if !found {
		return nil
	}
	var versions []string
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/redis/go-redis/v9", "github.com/restatedev/sdk-go", "github.com/ThreeDotsLabs/watermill-redisstream":
			_, name, _ := strings.Cut(module.Path, "/")
			versions = append(versions, name+" "+module.Version)
		}
	}
	return versions
}
