// The explorer shows the state that the cluster has voted for.

export const CONFIRMED = { commitment: 'confirmed' };
