// What is shown is what the cluster has voted for.

export const CONFIRMED = { commitment: 'confirmed' };
