// Command bench measures the library against named baselines, in one run, and prints a table. Its README says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/redisevents/restatestart/internal/bench/blocked"
	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/report"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// Roles under which this program starts itself again.
const (
	roleSink      = "sink"
	roleContender = "contender"
	roleBlocked   = "blocked"
)

func main() {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case roleSink:
		err = serveSink()
	case roleContender:
		err = contender.Serve()
	case roleBlocked:
		blocked.Serve()
	default:
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	redis   *servers.Redis
	rounds  int
	scale   float64
	profile string // directory; none: no profiles
	report  report.Report
}

func run() (err error) {
	rows := flag.String("row", "", "only the cases whose names begin with one of these, separated by commas")
	list := flag.Bool("list", false, "list the cases, and end")
	rounds := flag.Int("rounds", 5, "rounds of each contender, after one that warms up")
	scale := flag.Float64("scale", 1, "part of the usual number of messages")
	judge := flag.Bool("judge", true, "say whether targets are met")
	write := flag.String("write", "", "write the table to this file too")
	profile := flag.String("profile", "", "write profiles of ours to this directory; figures are then not to be compared")
	flag.Parse()
	switch {
	case *list:
		for _, c := range cases() {
			fmt.Printf("%-12s %s\n", c.name, c.what)
		}
		return nil
	case flag.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	case *write != "" && (*rows != "" || *profile != ""):
		return errors.New("-write is for whole runs without profiles")
	case *rounds < 1 || *scale <= 0:
		return errors.New("-rounds and -scale must be above 0")
	}
	chosen, err := choose(*rows)
	if err != nil {
		return err
	}
	if *profile != "" {
		if err := os.MkdirAll(*profile, 0o750); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	b := &bench{rounds: *rounds, scale: *scale, profile: *profile}
	b.report.Judge = *judge
	b.report.Head = b.describe(ctx)
	// Nothing is to be written to disk: its speed is not what is measured.
	b.redis, err = servers.LaunchRedis(ctx, servers.RedisOptions{Args: []string{"--appendonly", "no"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.redis.Close()) }()
	failed := b.all(ctx, chosen)
	return errors.Join(failed, b.print(*write, failed == nil))
}

// all runs the cases one after the other. One that fails does not keep the others from being measured.
func (b *bench) all(ctx context.Context, chosen []testCase) error {
	var failed error
	for _, c := range chosen {
		b.progressf("%s: %s", c.name, c.what)
		if err := c.run(b, ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(failed, ctx.Err())
		}
		if err := b.redis.Client().FlushAll(ctx).Err(); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// print writes the table to the output, and to a file if everything went well.
func (b *bench) print(file string, whole bool) error {
	if err := b.report.Write(os.Stdout); err != nil || file == "" || !whole {
		return err
	}
	var text strings.Builder
	text.WriteString("# Results\n\nWritten by `make bench`; [README.md](README.md) says how this is measured.\n\n")
	if err := b.report.Write(&text); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// messages scales a number of messages, to a multiple of what it has to be divided by.
func (b *bench) messages(usual, multiple int) int {
	return max(1, int(math.Round(float64(usual)*b.scale/float64(multiple)))) * multiple
}

// progress prints what is running, to stderr.
func (b *bench) progressf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// fileName makes a part of a file's name of a label.
func fileName(label string) string {
	return strings.Join(strings.FieldsFunc(label, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), "-")
}
