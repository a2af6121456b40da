"""skill_knn"""
