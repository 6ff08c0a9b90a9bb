package servers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBinariesAreLookedForInOrder(t *testing.T) {
	here := t.TempDir()
	script := func(name string) string {
		path := filepath.Join(here, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho "+name+" v=9.8.7 sha=0\n"), 0o700))
		return path
	}
	inPath, chosen := script(redisServer), script("chosen")
	t.Setenv("PATH", here)
	t.Setenv(RedisVariable, "")
	t.Setenv(RestateVariable, "")
	t.Setenv(RestateVersionVariable, "0.0.1")

	path, err := RedisBinary()
	require.NoError(t, err)
	assert.Equal(t, inPath, path)

	t.Setenv(RedisVariable, chosen)
	path, err = RedisBinary()
	require.NoError(t, err)
	assert.Equal(t, chosen, path)

	t.Setenv(RedisVariable, filepath.Join(here, "absent"))
	_, err = RedisBinary()
	require.ErrorIs(t, err, os.ErrNotExist)
	var missing *MissingError
	require.NotErrorAs(t, err, &missing, "a wrong path is no reason to skip")

	_, err = RestateBinary()
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, "restate-server was not found: run `make tools`, or set RESTATE_SERVER to its path", err.Error())

	t.Setenv(RedisVariable, chosen)
	assert.Equal(t, "redis-server 9.8.7, restate-server missing", Versions(t.Context()))
}

func TestFetchedRestateIsBelowTheRepositorysRoot(t *testing.T) {
	t.Setenv(RestateVersionVariable, "1.2.3")
	root, ok := repositoryRoot()
	require.True(t, ok)
	assert.FileExists(t, filepath.Join(root, "internal", "e2e", "go.mod"))
	assert.Contains(t, fetchedRestate(), filepath.Join(root, ".tools", "restate-1.2.3", "node_modules"))
}

func TestToolsFetchTheVersionThatIsLookedFor(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../tools.sh")
	require.NoError(t, err)
	assert.Contains(t, string(script), "${RESTATE_VERSION:-"+DefaultRestateVersion+"}")
}
