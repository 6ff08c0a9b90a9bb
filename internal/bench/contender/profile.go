package contender

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are those of a contender's rounds, all together, without the first, which warms up.
type profiles struct {
	prefix string
	cpu    *os.File
}

// newProfiles switches on what has to be on from the beginning. Without a prefix there are no profiles.
func newProfiles(prefix string) profiles {
	if prefix != "" {
		runtime.MemProfileRate = 64 << 10
		runtime.SetMutexProfileFraction(5)
		runtime.SetBlockProfileRate(10_000) // a sample for each 10 µs that something was blocked
	}
	return profiles{prefix: prefix}
}

func (p *profiles) start() error {
	if p.prefix == "" || p.cpu != nil {
		return nil
	}
	file, err := os.Create(p.prefix + ".cpu.prof")
	if err != nil {
		return err
	}
	p.cpu = file
	return pprof.StartCPUProfile(file)
}

func (p *profiles) write() error {
	if p.prefix == "" || p.cpu == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	for _, name := range []string{"allocs", "mutex", "block"} {
		err = errors.Join(err, p.lookup(name))
	}
	return err
}

func (p *profiles) lookup(name string) error {
	file, err := os.Create(p.prefix + "." + name + ".prof")
	if err != nil {
		return err
	}
	if err := pprof.Lookup(name).WriteTo(file, 0); err != nil {
		return errors.Join(fmt.Errorf("write the profile %s: %w", name, err), file.Close())
	}
	return file.Close()
}
