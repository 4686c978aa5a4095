/* What the CTAs of a cluster may ask of each other (PTX ISA, "Cluster of CTAs",
 * "CTA Pair"). */
#ifndef SIDESTREAM_CLUSTER_H
#define SIDESTREAM_CLUSTER_H

#include "core.h"

/* Misuse of another CTA; the info of FAULT_CLUSTER. */
enum ClusterError {
  CLUSTER_OK = 0,
  CLUSTER_NO_CTA,   /* the cluster has no such CTA */
  CLUSTER_FOREIGN,  /* .shared::cta names another CTA's memory */
  CLUSTER_APART,    /* mbarrier and destination lie in different CTAs */
  CLUSTER_NOT_PAIR, /* .cta_group::2: they lie in CTAs that are no pair */
  CLUSTER_NO_PEER,  /* .cta_group::2: the CTA has no peer in the cluster */
  CLUSTER_EXITED,   /* that CTA has exited: its shared memory is gone */
  CLUSTER_OWN,      /* the CTA's own memory where another CTA's is needed */
  CLUSTER_ALONE     /* a cluster of one CTA where more are needed */
};

/* The rank that .cta_group::2 signals for a copy to the CTA of rank `to`: of its pair
 * the one which is as odd or even as the CTA of the mbarrier at `mbar`. */
static inline u32 cluster_signal_rank(u32 to, u32 mbar) {
  return (to & ~1u) | (mbar >> 24 & 1u);
}

#endif
