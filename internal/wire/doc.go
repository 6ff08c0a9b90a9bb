// Package wire is the layout that RedisEvents keeps in Redis, wire version 1: key names, the fields of a
// stream entry, the packed header block, stream ids, and the values of the positions hash.
//
// It turns bytes into values and back and knows neither HTTP nor a Redis client. The rules mirror the .NET
// package RedisEvents, so that services written in .NET and Go can share topics and hand positions to each other.
package wire

// Version is the codec version this package reads and writes, recorded as field `v` of the topic meta hash.
const Version = 1
